#pragma once
// One pattern of bits for all: what hash.txt says, here and in bits.ts.

#include <string>

/// A hash over the bits of every operation's results for fixed cases, as 16 hexadecimal digits.
std::string bit_hash();
