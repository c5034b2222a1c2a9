# Finds the toolchain file that belongs to the emcc on the PATH: Debian's package and emsdk keep it in different places.
execute_process(
  COMMAND em-config EMSCRIPTEN_ROOT
  OUTPUT_VARIABLE emscripten_root
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE emscripten_status)
if(NOT emscripten_status EQUAL 0)
  message(FATAL_ERROR "No Emscripten on the PATH. Install it with 'apt-get install emscripten', or install and "
                      "activate emsdk (https://emscripten.org/docs/getting_started/downloads.html).")
endif()
include(${emscripten_root}/cmake/Modules/Platform/Emscripten.cmake)
