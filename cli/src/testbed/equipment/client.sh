#!/bin/sh
# The job at {site}: measures the link to the job at the other site, and goes on until it is ended.
date +%s.%N > started-{site}.new && mv started-{site}.new started-{site}
# The other job may not listen yet; iperf3 ends with 0 also when it reaches nobody.
until iperf3 --client {other} --bind {own} --time {seconds} --omit 1 --json > rate.json && grep -q sum_received rate.json
do sleep 0.1; done
mv rate.json measured.json
exec sleep 600
