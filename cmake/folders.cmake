# The pipeline order. Each folder may include only folders above it in this list
# (scripts/check_includes.py reads the same list, so there is one place).
set(AOIZORA_FOLDERS
  base
  topology
  ir
  network
  simulate
  enumerate
  shard
  compile
  place
  plan
  report)
