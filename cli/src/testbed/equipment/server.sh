#!/bin/sh
# The job at {site}: receives what the job at the other site sends, until it is ended.
date +%s.%N > started-{site}.new && mv started-{site}.new started-{site}
exec iperf3 --server --bind {own}
