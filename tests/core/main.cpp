// Catch2's version 2 is a header: its own code is compiled here, once.
#define CATCH_CONFIG_MAIN
#include "catch.h"
