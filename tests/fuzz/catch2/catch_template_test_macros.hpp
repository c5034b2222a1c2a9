// Nothing of it is used by the fuzzer.
