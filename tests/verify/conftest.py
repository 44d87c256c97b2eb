"""The kernels of these tests import `nki` by its own name."""

import nkicc

nkicc.activate()
