#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aoizora/base/json.h"
#include "layout.h"
#include "predict.h"
#include "torus.h"

namespace aoizora::testbed {

/// What a study asks of one slice: programs, each with placements. Read from JSON:
///   {"slice": "v5e:2x4", "profile": FILE, "links": {"rate_mbit": 80, ..}, "programs":
///    [{"file": FILE, "placements": [[chip of position 0, ..], ..]}, ..]}
/// `links` and its members, and `placements`, may be left out.
struct Job {
  topology::Slice slice;
  network::Profile profile;
  LinkSettings links;
  std::vector<Program> programs;
  std::vector<std::vector<topology::Placement>> placements;  // per program
};

Job read_job(const std::string& file);
LinkSettings read_links(const JsonView& view);

/// Times that every placement of every program is predicted to take.
Json predict(const Job& job);

/// Sets the torus up and does the runs that standard input asks for, a line each: `PROGRAM PLACEMENT`,
/// numbers into the job. Answers each with a line of JSON. Returns when the input ends. To be called in a
/// private world.
int serve(const Job& job);

}  // namespace aoizora::testbed
