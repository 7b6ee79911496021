# Warnings are errors in our own code, on both compilers that CI uses.
add_library(aoizora_flags INTERFACE)
target_compile_options(aoizora_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wnull-dereference -Werror)
# g++ 12 reports false positives here inside its own headers at -O2 (GCC bugs 105562, 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(aoizora_flags INTERFACE
    -Wno-maybe-uninitialized -Wno-restrict -Wno-null-dereference -Wno-stringop-overflow -Wno-array-bounds
    -Wno-stringop-overread)
endif()
# clang blames our std::stable_sort for libstdc++ 12's own use of its deprecated get_temporary_buffer.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(aoizora_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(AOIZORA_SANITIZE)
  add_compile_options(-fsanitize=${AOIZORA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${AOIZORA_SANITIZE})
endif()
