# Web search: flows of the cluster of DCTCP (Alizadeh et al., SIGCOMM 2010, figure 4), as its authors' traffic generator
# has it (github.com/datacenter/empirical-traffic-gen, DCTCP_CDF): bytes and cumulative probability; linear between points. mean 1711250 B
0 0.000000
10000 0.150000
20000 0.200000
30000 0.300000
50000 0.400000
80000 0.530000
200000 0.600000
1000000 0.700000
2000000 0.800000
5000000 0.900000
10000000 0.970000
30000000 1.000000
