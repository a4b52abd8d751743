#!/bin/sh
# The nightly run after dbt has built the table that is explained, and dbt's own tests of the result.
# DSHAP, DBT and JOB may be set to other places.
set -eu
: "${DBT:=dbt}" "${DSHAP:=dshap}" "${JOB:=job.toml}"

"$DBT" build --select customers
"$DSHAP" run "$JOB" -q --log json
"$DBT" test --select source:dshap
