// Compares the hash with the one constant. Without a framework, so that it runs wherever the core compiles.

#include "bits.h"

#include <cstdio>

int main() {
  const std::string found = bit_hash();
  if (found == SIMDNORM_HASH) return 0;
  std::printf(
      "The bits of the results have changed: hash.txt says %s, found %s.\n"
      "If that is meant, write the new hash there, and a line in CHANGELOG.md.\n",
      SIMDNORM_HASH, found.c_str());
  return 1;
}
