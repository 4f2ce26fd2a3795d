// Objects and replicas as replies show them.
#pragma once

#include <span>
#include <string_view>

#include "server/core/types.h"
#include "server/net/command_context.h"

namespace tiercel::net {

// A name of a map's field, encoded once by the compiler.
template <size_t kBytes>
struct FieldName {
  char text[kBytes + 8] = {};
  size_t size = 0;
  consteval FieldName(const char (&name)[kBytes]) {  // NOLINT: implicit by design
    constexpr size_t kLength = kBytes - 1;
    static_assert(kLength < 100);
    text[size++] = '$';
    if (kLength >= 10) text[size++] = static_cast<char>('0' + kLength / 10);
    text[size++] = static_cast<char>('0' + kLength % 10);
    text[size++] = '\r', text[size++] = '\n';
    for (size_t i = 0; i < kLength; ++i) text[size++] = name[i];
    text[size++] = '\r', text[size++] = '\n';
  }
};
template <FieldName kName>
void Field(resp::Encoder& reply) {
  reply.out()->append(kName.text, kName.size);
}

void ReplySum(resp::Encoder& reply, uint64_t sum);  // 16 hex digits

// An array of lines, each with a fresh grant of this right.
void ReplyReplicas(CommandContext& c, std::span<const core::ReplicaInfo> replicas, Version version, Right right);

// The map of GETREPLICAS. Sorts the replicas for the caller first.
void ReplyObject(CommandContext& c, core::ObjectInfo* object);

// True when both describe processes on one host: "BOOTID/NAME" or "NAME". Equal boot ids decide when both have one.
bool SameHost(std::string_view a, std::string_view b);
std::string_view HostNameOf(std::string_view host);

// Best first for this caller: not suspect before suspect, his own host before others; equals are spread.
void SortForCaller(const CommandContext& c, core::ObjectInfo* object);

std::string_view StoreStateName(core::StoreInfo::State state);

// One per thread: look-ups into it stop allocating.
core::ObjectInfo& ScratchObject();

}  // namespace tiercel::net
