"""The tests of the front door import `nki` as a kernel does."""

import nkicc

nkicc.activate()
