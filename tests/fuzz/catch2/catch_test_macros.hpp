#pragma once
// In place of Catch2 where a fuzzer uses what the tests use: what fails ends the process, which libFuzzer
// notices.

#include <cstdio>
#include <cstdlib>
#include <sstream>

#define FAIL(message)                                                    \
  do {                                                                   \
    std::ostringstream text_of_failure;                                  \
    text_of_failure << message;                                          \
    std::fprintf(stderr, "FAILED: %s\n", text_of_failure.str().c_str()); \
    std::abort();                                                        \
  } while (false)
#define REQUIRE(condition)              \
  do {                                  \
    if (!(condition)) FAIL(#condition); \
  } while (false)
