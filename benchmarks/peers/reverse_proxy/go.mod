module penstock/benchmarks/reverse_proxy

go 1.21
