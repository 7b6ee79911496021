#include "aoizora/topology/check.h"

#include "aoizora/base/error.h"

namespace aoizora::topology {
namespace {

void check_links(const Slice& slice) {
  std::size_t leaving = 0;
  for (std::size_t l = 0; l < slice.links().size(); ++l) {
    const DirectedLink& link = slice.links()[l];
    const bool dcn = link.link_class == LinkClass::kDcn;
    AOIZORA_CHECK(link.from.valid() || dcn, "link {} leaves no chip", l);
    AOIZORA_CHECK(link.to.valid() || dcn, "link {} reaches no chip", l);
    AOIZORA_CHECK(!link.from.valid() || link.from.at() < slice.chips(), "link {} leaves chip {}", l,
                  link.from.value);
    AOIZORA_CHECK(!link.to.valid() || link.to.at() < slice.chips(), "link {} reaches chip {}", l,
                  link.to.value);
    AOIZORA_CHECK(link.from != link.to, "link {} joins chip {} to itself", l, link.from.value);
    leaving += link.from.valid() ? 1U : 0U;
  }
  for (std::size_t chip = 0; chip < slice.chips(); ++chip) {
    for (const Link link : slice.outgoing(Chip(static_cast<std::int32_t>(chip)))) {
      AOIZORA_CHECK(slice.links()[link.at()].from.at() == chip, "link {} is not of chip {}", link.value,
                    chip);
      --leaving;
    }
  }
  AOIZORA_CHECK(leaving == 0, "{} links are listed with no chip", leaving);
}

void check_neighbours(const Slice& slice, Chip chip) {
  for (std::int32_t dim = 0; dim < std::ssize(slice.dims()); ++dim) {
    const std::int32_t size = slice.dims()[static_cast<std::size_t>(dim)];
    for (const bool positive : {true, false}) {
      const Link link = slice.neighbour_link(chip, dim, positive);
      const std::int32_t at = slice.grid(chip)[static_cast<std::size_t>(dim)];
      const bool edge = at == (positive ? size - 1 : 0);
      AOIZORA_CHECK(link.valid() == (size > 1 && (!edge || slice.wraps(dim))), "chip {} along dimension {}",
                    chip.value, dim);
      if (link.valid()) {
        const Chip next = slice.links()[link.at()].to;
        const Link back = slice.neighbour_link(next, dim, !positive);
        AOIZORA_CHECK(
            back.valid() && slice.links()[back.at()].to.value / slice.cores() == chip.value / slice.cores(),
            "no way back from chip {} to {}", next.value, chip.value);
      }
    }
  }
}

/// Going straight on comes back to the start: after the size of the dimension, times the turns of a twist.
void check_wrap(const Slice& slice, std::int32_t dim) {
  const std::int32_t turns = slice.twisted() ? 2 : 1;
  Chip at(0);
  for (std::int32_t i = 0; i < turns * slice.dims()[static_cast<std::size_t>(dim)]; ++i) {
    at = slice.links()[slice.neighbour_link(at, dim, true).at()].to;
  }
  AOIZORA_CHECK(at == Chip(0), "dimension {} does not come back", dim);
}

}  // namespace

void check_slice(const Slice& slice) {
  check_links(slice);
  for (std::size_t i = 0; i < slice.chips(); ++i) {
    const Chip chip(static_cast<std::int32_t>(i));
    AOIZORA_CHECK(slice.at(slice.coordinates(chip)) == chip, "chip {} is not where it says", i);
    AOIZORA_CHECK(slice.host_of(chip) >= 0 && slice.host_of(chip) < slice.hosts(), "chip {} has host {}", i,
                  slice.host_of(chip));
    if (!slice.is_graph()) {
      check_neighbours(slice, chip);
    }
  }
  for (std::int32_t dim = 0; dim < std::ssize(slice.dims()); ++dim) {
    if (slice.wraps(dim)) {
      check_wrap(slice, dim);
    }
  }
}

}  // namespace aoizora::topology
