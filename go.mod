module liqo.io/federation

go 1.26.0
