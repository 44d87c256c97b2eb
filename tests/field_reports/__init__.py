"""What multi-rank kernels run into, one test per report: the stated input gives the stated behaviour."""
