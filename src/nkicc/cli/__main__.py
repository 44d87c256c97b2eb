from nkicc.cli import main

main()
