"""The Open Inference Protocol (version 2 of KServe's), for platforms that speak it."""
