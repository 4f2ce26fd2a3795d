// Answers with a stored value, or a part of it, as one bulk string.
#pragma once

#include "server/net/command_context.h"

namespace tiercel::net {

// Values up to this size are verified and copied into the output under the lock; larger ones are streamed. It is
// what a connection's reply may exceed its budget by.
inline constexpr uint64_t kInlineValueBytes = 16 * 1024;

// Look-up options of a plain read: no lease (the bytes leave from here), a use unless the connection says otherwise.
core::LookupOptions PlainRead(const CommandContext& c);

// Under the lock; `info` is what a look-up of `key` just gave. [from, from + length) lies inside the value. `more`: the
// command goes on behind it: then kMore means "answered, go on at once" and kStreamMore "streaming, run again".
Outcome AnswerValue(CommandContext& c, const core::KeyRef& key, const core::ObjectInfo& info, uint64_t from,
                    uint64_t length, bool more = false);

// Verified bytes of a small value (at most kInlineValueBytes) that has a replica here; false when there is none or none
// is right (those are reported).
bool ReadSmall(CommandContext& c, const core::KeyRef& key, const core::ObjectInfo& info, std::string* out);

}  // namespace tiercel::net
