#pragma once

#include "torus.h"

namespace aoizora::testbed {

/// Flows of one size that start together on a line, a ring and a grid, and when each is through, against
/// max-min fair sharing computed from the links' rates alone. Prints a table (or JSON); 0 when every flow of
/// the cases that have a hand calculation is within 5 %.
int fairness(const LinkSettings& settings, bool json);

}  // namespace aoizora::testbed
