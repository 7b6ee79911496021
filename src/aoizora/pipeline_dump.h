#pragma once

#include "aoizora/base/json.h"
#include "aoizora/place/search.h"
#include "aoizora/shard/cost.h"

/// What `aoizora plan --dump DIR` shows of a candidate, stage by stage (times in us, sizes in bytes).
namespace aoizora {

/// What the estimate before compiling is made of, every collective apart.
Json dump_of(const shard::Cost& cost);

/// What the search found: the choice, the best, the baselines, and what the bound rests on.
Json dump_of(const place::Ranking& ranking, const topology::Slice& slice);

}  // namespace aoizora
