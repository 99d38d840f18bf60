"""The routes of the Open Inference Protocol (KServe's version 2), for platforms that speak it."""
