// A replica on the wire: one line of words that people can read and clients parse.
//   TIER STORE.INCARNATION SEGMENT.EPOCH OFFSET+LENGTH[,OFFSET+LENGTH...] GRANT
// e.g. "dram s1.9f3c20aa00000000 2.41 1048576+1048576 1.R.6c...". "0+0" stands for no extents (an empty value).
// GRANT is base/grant.h's text form, or "-" for none.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::resp {

struct ReplicaDescriptor {
  Tier tier = Tier::kDram;
  std::string store;
  Incarnation incarnation;
  SegmentRef place;
  ExtentList extents;
  bool has_grant = false;
  Grant grant;  // with incarnation, place and extents filled in when has_grant
};

// Appends the line. `grant` may be nullptr.
void AppendReplica(Tier tier, std::string_view store, Incarnation incarnation, SegmentRef place,
                   const ExtentList& extents, const Grant* grant, std::string* out);
Result<ReplicaDescriptor> ParseReplica(std::string_view line);

// "STORE.INCARNATION" (the name may contain dots; the last one counts) and "SEGMENT.EPOCH".
Result<std::pair<std::string, Incarnation>> ParseStoreRef(std::string_view text);
Result<SegmentRef> ParseSegmentRef(std::string_view text);
Result<ExtentList> ParseExtents(std::string_view text);

}  // namespace tiercel::resp
