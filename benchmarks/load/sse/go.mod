module penstock/benchmarks/sse

go 1.22
