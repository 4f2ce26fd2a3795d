# How every target of the tree is built: language level, warnings, sanitizers,
# ccache, and two small functions that the folders' lists call.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# Assertions of the project are its own (base/check.h) and stay on everywhere.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
if(TIERCEL_SANITIZE)
  # Instrumented code costs the compiler two to three times the time at -O2, and nothing is measured there.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(tiercel_options INTERFACE)
target_include_directories(tiercel_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_options(tiercel_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wno-missing-field-initializers;-fno-omit-frame-pointer>)
if(TIERCEL_SANITIZE)
  target_compile_options(tiercel_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${TIERCEL_SANITIZE}>)
  target_link_options(tiercel_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${TIERCEL_SANITIZE}>)
  if(TIERCEL_SANITIZE MATCHES "undefined")
    # The check of virtual tables looks whether memory can be read by writing it into a pipe, and calls every object
    # wrong when a test has used up the descriptors.
    target_compile_options(tiercel_options INTERFACE $<BUILD_INTERFACE:-fno-sanitize-recover=undefined;-fno-sanitize=vptr>)
  endif()
  target_compile_definitions(tiercel_options INTERFACE $<BUILD_INTERFACE:TIERCEL_SANITIZED=1;_GLIBCXX_ASSERTIONS>)
endif()

# tiercel_library(NAME [DEPS target...] [LIBS external...])
# A static library of all sources in the current folder (not below it).
function(tiercel_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC tiercel_options ${ARG_DEPS} ${ARG_LIBS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE tiercel_options ${ARG_DEPS} ${ARG_LIBS})
  endif()
endfunction()

# tiercel_test(NAME [LABELS l...] [TIMEOUT s] DEPS target...)
# One GoogleTest program of all *_test.cc in the current folder, one ctest entry a test.
function(tiercel_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;DEPS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tiercel_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# tiercel_fuzz(NAME SOURCE DEPS target...): a libFuzzer program, only in the fuzz preset.
function(tiercel_fuzz name source)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  if(TIERCEL_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE tiercel_options ${ARG_DEPS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
