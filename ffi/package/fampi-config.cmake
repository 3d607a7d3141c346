# fampi::fampi is the shared library, fampi::static the one that goes into the program: those for
# the MPI of this project.
include(CMakeFindDependencyMacro)
find_dependency(MPI)
get_filename_component(fampi_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(TARGET MPI::MPI_C)
  set(fampi_mpi MPI::MPI_C)
  set(fampi_headers ${MPI_C_INCLUDE_DIRS})
else()
  set(fampi_mpi MPI::MPI_CXX)
  set(fampi_headers ${MPI_CXX_INCLUDE_DIRS})
endif()
set(fampi_is_mpich "")
foreach(fampi_folder IN LISTS fampi_headers)
  if(EXISTS "${fampi_folder}/mpi.h")
    file(STRINGS "${fampi_folder}/mpi.h" fampi_is_mpich REGEX "^#define MPICH_VERSION")
    break()
  endif()
endforeach()
if(fampi_is_mpich)
  set(fampi_libraries "${fampi_prefix}/lib/mpich")
  set(fampi_option "--mpi mpich")
else()
  set(fampi_libraries "${fampi_prefix}/lib")
  set(fampi_option "--mpi open-mpi")
endif()
if(NOT EXISTS "${fampi_libraries}/libfampi.so")
  set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
  set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE
    "fampi is installed for another MPI: cargo fampi install ${fampi_option} --prefix ${fampi_prefix}")
elseif(NOT TARGET fampi::fampi)
  add_library(fampi::fampi SHARED IMPORTED)
  set_target_properties(fampi::fampi PROPERTIES
    IMPORTED_LOCATION "${fampi_libraries}/libfampi.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${fampi_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${fampi_mpi}")
  add_library(fampi::static STATIC IMPORTED)
  set_target_properties(fampi::static PROPERTIES
    IMPORTED_LOCATION "${fampi_libraries}/libfampi.a"
    INTERFACE_INCLUDE_DIRECTORIES "${fampi_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${fampi_mpi};pthread;dl;m;rt;gcc_s")
endif()
