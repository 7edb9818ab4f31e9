module leat/bench/peers/csp

go 1.18
