# What is installed, and how others find it: find_package(tiercel) gives tiercel::tiercel, pkg-config gives
# tiercel. The client library is installed as one archive that holds the objects of everything it is made of, so
# that a consumer links one library and the outside ones.
#
# Components: `dev` (headers, library, CMake package, pkg-config file) and `programs`.
include(CMakePackageConfigHelpers)

# All static libraries of this project that a target links to, itself included.
function(tiercel_static_closure target out)
  set(done ${${out}})
  if(TARGET ${target} AND NOT target IN_LIST done)
    get_target_property(imported ${target} IMPORTED)
    if(NOT imported)
      list(APPEND done ${target})
      get_target_property(direct ${target} INTERFACE_LINK_LIBRARIES)
      foreach(dependency IN LISTS direct)
        tiercel_static_closure("${dependency}" done)
      endforeach()
    endif()
  endif()
  set(${out} ${done} PARENT_SCOPE)
endfunction()

set(tiercel_members)
tiercel_static_closure(tiercel tiercel_members)
set(tiercel_objects)
foreach(member IN LISTS tiercel_members)
  get_target_property(type ${member} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND tiercel_objects $<TARGET_OBJECTS:${member}>)
  endif()
endforeach()

add_library(tiercel_package STATIC ${tiercel_objects})
set_target_properties(tiercel_package PROPERTIES
  OUTPUT_NAME tiercel EXPORT_NAME tiercel LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/package)
target_compile_features(tiercel_package INTERFACE cxx_std_20)
target_include_directories(tiercel_package INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tiercel_package INTERFACE
  fmt::fmt spdlog::spdlog OpenSSL::SSL OpenSSL::Crypto Threads::Threads)

install(TARGETS tiercel_package EXPORT tiercelTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tiercel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev FILES_MATCHING PATTERN "*.h")

set(tiercel_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tiercel)
install(EXPORT tiercelTargets NAMESPACE tiercel:: DESTINATION ${tiercel_cmake_dir} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tiercelConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/tiercelConfig.cmake INSTALL_DESTINATION ${tiercel_cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/tiercelConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/tiercelConfig.cmake ${CMAKE_BINARY_DIR}/package/tiercelConfigVersion.cmake
        DESTINATION ${tiercel_cmake_dir} COMPONENT dev)

# Relative, so that an installed tree may be moved.
file(RELATIVE_PATH TIERCEL_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tiercel.pc.in ${CMAKE_BINARY_DIR}/package/tiercel.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/tiercel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

foreach(program tiercel-server tiercel-cli tiercel-bench tiercel-dump)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/conf/tiercel.conf)
  install(FILES ${PROJECT_SOURCE_DIR}/conf/tiercel.conf DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/tiercel
          COMPONENT programs)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
