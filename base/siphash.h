// SipHash-2-4 with a 128-bit key: the MAC of grants and tickets.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012); 128-bit output as in the reference code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tiercel {

using SipKey = std::array<std::byte, 16>;
using Mac128 = std::array<std::byte, 16>;

uint64_t SipHash24(const SipKey& key, std::span<const std::byte> message);
Mac128 SipHash24Mac(const SipKey& key, std::span<const std::byte> message);

// Comparison whose time does not depend on where the arguments differ.
bool EqualConstantTime(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace tiercel
