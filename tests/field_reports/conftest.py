"""The kernels of these tests import `nki` as any kernel does."""

import nkicc

nkicc.activate()
