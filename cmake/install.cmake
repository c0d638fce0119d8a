# SPDX-License-Identifier: MIT
# What `make install` puts on the system, and how other projects find it:
# find_package(memopt) gives memopt::memopt, pkg-config gives memopt.

if(NOT TARGET memopt)
  return()
endif()

# The API may still change with each 0.x release, so the SOVERSION stays 0 until 1.0.
set_target_properties(memopt PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)

install(TARGETS memopt EXPORT memopt-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lib/include/memopt
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/uapi/linux/rdma_memopt.h
  ${PROJECT_SOURCE_DIR}/uapi/linux/rdma_memopt_share.h
  ${PROJECT_SOURCE_DIR}/uapi/linux/rdma_memopt_watch.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/linux)

if(TARGET memopt-tool)
  install(TARGETS memopt-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/memopt)
install(EXPORT memopt-targets NAMESPACE memopt:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/memopt-config.cmake.in
  ${PROJECT_BINARY_DIR}/memopt-config.cmake INSTALL_DESTINATION ${package_dir})
# A 0.x release promises nothing to programs built for another 0.y.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/memopt-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/memopt-config.cmake
  ${PROJECT_BINARY_DIR}/memopt-config-version.cmake DESTINATION ${package_dir})

configure_file(${CMAKE_CURRENT_LIST_DIR}/memopt.pc.in ${PROJECT_BINARY_DIR}/memopt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/memopt.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
