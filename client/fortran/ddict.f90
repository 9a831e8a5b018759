! SPDX-License-Identifier: Apache-2.0
!
! ddict.f90 - the distributed dictionary of a Slurm job, for Fortran 2018. Module files are a
! compiler's own, so this is installed as source:
!
!     gfortran -c $(pkg-config --variable=includedir ddict)/ddict.f90
!     gfortran prog.f90 ddict.o $(pkg-config --libs ddict)
!
!     use ddict
!     type(dict) :: d
!     real(real64) :: w(3, 4)
!     real(real64), allocatable :: x(:, :)
!     call d%attach()
!     call d%put('w', w)                       ! d["w"] of Python
!     call d%get(tuple('grid', 7), x)          ! d["grid", 7]
!     call d%get('ready', n, wait=30.0)        ! wait for the key, at most 30 s
!     call d%detach()
!
! KEYS. A character (all of it: use trim() where blanks follow), an integer, or a tuple() of one to
! four of these: str, int and tuple of Python.
!
! VALUES. Scalars are int and float of Python; a scalar of either kind is read into any real.
! Characters are str, in UTF-8. Arrays of integer(int32, int64), real(real32, real64) and
! complex(real64), in ranks 1 to 3, are numpy.ndarray. Elements are stored from where they are (a
! section that is not contiguous is packed first, by the compiler) and read with one copy.
!
! ORDER. Fortran has the first index fastest, C and Python the last one. The elements stay in their
! order, so the shape turns round: a(3, 4) is an array of shape (4, 3) in Python, C and C++, where
! d["a"][j - 1, i - 1] is a(i, j). In Python d["a"].T has Fortran's shape, without a copy. And an
! array that Python stores with shape (4, 3) is read here as a(3, 4).
!
! ERRORS. stat is 0, or the negative code of libddict(3), such as ddict_enokey. errmsg is the
! sentence, and is left alone where all went well. Without stat a failure is an error stop. A get
! that fails leaves an allocatable not allocated, a scalar as it was.
!
! Any number of threads may use a dict at once. A dict that is copied is the same handle.
module ddict
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64, error_unit
   implicit none
   private
   public :: dict, dict_key, tuple, int32, int64, real32, real64

   ! of ddict_types.h
   integer, parameter, public :: ddict_enokey = -4001, ddict_eexists = -4002, ddict_efull = -4003
   integer, parameter, public :: ddict_enodict = -4004, ddict_egone = -4005, ddict_elost = -4006
   integer, parameter, public :: ddict_efrozen = -4015, ddict_ekeylost = -4017
   integer, parameter, public :: ddict_etimedout = -110 ! a wait that came to its end
   integer, parameter, public :: ddict_etype = -74      ! the value is of another type or rank

   integer, parameter :: dims_max = 32, part_text = 22
   integer(c_int), parameter :: flag_wait = 4
   ! failures that are found here
   integer, parameter :: no_key = -5001, other_rank = -5002, too_large = -5003

   ! A key as its bytes.
   type :: dict_key
      private
      character(:, c_char), allocatable :: bytes
   end type

   type :: dict
      private
      type(c_ptr) :: handle = c_null_ptr
   contains
      procedure :: attach, detach, has, erase, size => count_keys, clear
      procedure, private :: put_int32, put_int64, put_real32, put_real64, put_complex64
      procedure, private :: put_text
      generic :: put => put_int32, put_int64, put_real32, put_real64, put_complex64, put_text
      procedure, private :: get_int32, get_int64, get_real32, get_real64, get_text
      procedure, private :: get_int32_1, get_int32_2, get_int32_3, get_int64_1, get_int64_2
      procedure, private :: get_int64_3, get_real32_1, get_real32_2, get_real32_3
      procedure, private :: get_real64_1, get_real64_2, get_real64_3, get_complex64_1
      procedure, private :: get_complex64_2, get_complex64_3
      generic :: get => get_int32, get_int64, get_real32, get_real64, get_text, get_int32_1, &
         get_int32_2, get_int32_3, get_int64_1, get_int64_2, get_int64_3, get_real32_1, &
         get_real32_2, get_real32_3, get_real64_1, get_real64_2, get_real64_3, &
         get_complex64_1, get_complex64_2, get_complex64_3
   end type

   ! the structs of ddict.h and ddict_values.h
   type, bind(c) :: view_t
      type(c_ptr) :: data
      integer(c_size_t) :: len
      integer(c_int64_t) :: version
      integer(c_int) :: tag, kind
      type(c_ptr) :: owner
      integer(c_int64_t) :: slot
   end type
   type, bind(c) :: array_t
      type(c_ptr) :: data
      integer(c_size_t) :: bytes, count, item, shape(dims_max)
      integer(c_int) :: dims
      character(c_char) :: type(16)
      integer(c_int) :: torch
   end type
   type, bind(c) :: piece_t
      type(c_ptr) :: base
      integer(c_size_t) :: len
   end type
   type, bind(c) :: value_t
      type(piece_t) :: iov(2)
      integer(c_int) :: n, flags
      integer(c_int64_t) :: head(40)
   end type
   type, bind(c) :: part_t
      integer(c_int) :: kind
      type(c_ptr) :: data
      integer(c_size_t) :: len
      integer(c_int64_t) :: number
   end type

   interface
      integer(c_int) function ddict_attach(d, name, ms) bind(c)
         import
         type(c_ptr) :: d
         type(c_ptr), value :: name
         integer(c_int), value :: ms
      end function
      integer(c_int) function ddict_detach(d) bind(c)
         import
         type(c_ptr), value :: d
      end function
      integer(c_int) function ddict_del(d, key, klen, ms) bind(c)
         import
         type(c_ptr), value :: d
         character(c_char), intent(in) :: key(*)
         integer(c_size_t), value :: klen
         integer(c_int), value :: ms
      end function
      integer(c_int) function ddict_contains(d, key, klen, vlen, ms) bind(c)
         import
         type(c_ptr), value :: d, vlen
         character(c_char), intent(in) :: key(*)
         integer(c_size_t), value :: klen
         integer(c_int), value :: ms
      end function
      integer(c_int64_t) function ddict_len(d, ms) bind(c)
         import
         type(c_ptr), value :: d
         integer(c_int), value :: ms
      end function
      integer(c_int) function ddict_clear(d, ms) bind(c)
         import
         type(c_ptr), value :: d
         integer(c_int), value :: ms
      end function
      integer(c_int) function ddict_putv(d, key, klen, iov, n, flags, ms) bind(c)
         import
         type(c_ptr), value :: d
         character(c_char), intent(in) :: key(*)
         integer(c_size_t), value :: klen
         type(piece_t), intent(in) :: iov(*)
         integer(c_int), value :: n, flags, ms
      end function
      integer(c_int) function ddict_view(d, key, klen, v, flags, ms) bind(c)
         import
         type(c_ptr), value :: d
         character(c_char), intent(in) :: key(*)
         integer(c_size_t), value :: klen
         type(view_t) :: v
         integer(c_int), value :: flags, ms
      end function
      subroutine ddict_release(v) bind(c)
         import
         type(view_t) :: v
      end subroutine
      integer(c_size_t) function ddict_key_tuple(buf, cap, parts, n) bind(c) ! ssize_t
         import
         character(c_char) :: buf(*)
         integer(c_size_t), value :: cap, n
         type(part_t), intent(in) :: parts(*)
      end function
      subroutine ddict_value_int(v, number) bind(c)
         import
         type(value_t) :: v
         integer(c_int64_t), value :: number
      end subroutine
      subroutine ddict_value_float(v, number) bind(c)
         import
         type(value_t) :: v
         real(c_double), value :: number
      end subroutine
      subroutine ddict_value_str(v, text, len) bind(c)
         import
         type(value_t) :: v
         character(c_char), intent(in) :: text(*)
         integer(c_size_t), value :: len
      end subroutine
      integer(c_int) function ddict_value_array(v, type, dims, shape, data) bind(c)
         import
         type(value_t) :: v
         character(c_char), intent(in) :: type(*)
         integer(c_int), value :: dims
         integer(c_size_t), intent(in) :: shape(*)
         type(c_ptr), value :: data
      end function
      integer(c_int) function ddict_read_int(v, number) bind(c)
         import
         type(view_t), intent(in) :: v
         integer(c_int64_t) :: number
      end function
      integer(c_int) function ddict_read_float(v, number) bind(c)
         import
         type(view_t), intent(in) :: v
         real(c_double) :: number
      end function
      integer(c_int) function ddict_read_str(v, text, len) bind(c)
         import
         type(view_t), intent(in) :: v
         type(c_ptr) :: text
         integer(c_size_t) :: len
      end function
      integer(c_int) function ddict_read_array(v, type, a) bind(c)
         import
         type(view_t), intent(in) :: v
         character(c_char), intent(in) :: type(*)
         type(array_t) :: a
      end function
      type(c_ptr) function ddict_errmsg() bind(c)
         import
      end function
      integer(c_size_t) function strlen(text) bind(c)
         import
         type(c_ptr), value :: text
      end function
   end interface

contains

   ! --- begin and end, all keys ---

   ! name: the job's own dictionary if it is not given.
   subroutine attach(self, name, stat, errmsg)
      class(dict), intent(inout) :: self
      character(*), intent(in), optional :: name
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      character(:, c_char), allocatable, target :: text
      if (present(name)) then
         text = name//c_null_char
         call finish(int(ddict_attach(self%handle, c_loc(text), -1_c_int)), stat, errmsg)
      else
         call finish(int(ddict_attach(self%handle, c_null_ptr, -1_c_int)), stat, errmsg)
      end if
   end subroutine

   subroutine detach(self)
      class(dict), intent(inout) :: self
      integer(c_int) :: rc
      rc = ddict_detach(self%handle)
      self%handle = c_null_ptr
   end subroutine

   logical function has(self, key, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(dict_key) :: k
      integer :: rc
      rc = key_make(k, key)
      if (rc == 0) rc = ddict_contains(self%handle, k%bytes, len(k%bytes, c_size_t), c_null_ptr, -1_c_int)
      has = rc == 1
      call finish(min(rc, 0), stat, errmsg)
   end function

   ! stat = ddict_enokey where the key is absent.
   subroutine erase(self, key, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(dict_key) :: k
      integer :: rc
      rc = key_make(k, key)
      if (rc == 0) rc = ddict_del(self%handle, k%bytes, len(k%bytes, c_size_t), -1_c_int)
      call finish(rc, stat, errmsg)
   end subroutine

   integer(int64) function count_keys(self, stat, errmsg)
      class(dict), intent(in) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      count_keys = ddict_len(self%handle, -1_c_int)
      call finish(int(min(count_keys, 0_int64)), stat, errmsg)
   end function

   subroutine clear(self, stat, errmsg)
      class(dict), intent(in) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call finish(int(ddict_clear(self%handle, -1_c_int)), stat, errmsg)
   end subroutine

   ! --- keys ---

   ! The parts are characters, integers and tuples.
   function tuple(a, b, c, d) result(key)
      class(*), intent(in) :: a
      class(*), intent(in), optional :: b, c, d
      type(dict_key) :: key
      type(part_t) :: parts(4)
      type(dict_key), target :: own(4)
      integer :: n
      integer(c_size_t) :: room, got
      n = 0
      room = 1
      call add(a)
      if (present(b)) call add(b)
      if (present(c)) call add(c)
      if (present(d)) call add(d)
      allocate (character(room, c_char) :: key%bytes)
      got = ddict_key_tuple(key%bytes, room, parts, int(n, c_size_t))
      ! a key that is refused has no bytes: the call that gets it says so
      if (got < 0) got = 0
      key%bytes = key%bytes(1:got)
   contains
      subroutine add(part)
         class(*), intent(in) :: part
         integer :: rc
         n = n + 1
         rc = key_make(own(n), part)
         if (rc < 0) own(n)%bytes = '?'
         ! a part is told as a key is, by its first byte; data is what follows
         parts(n) = part_t(ichar(own(n)%bytes(1:1)), c_null_ptr, len(own(n)%bytes, c_size_t) - 1, 0)
         if (parts(n)%kind == ichar('i')) parts(n)%kind = ichar('I')
         parts(n)%data = rest(own(n)%bytes)
         room = room + 5 + parts(n)%len
      end subroutine
   end function

   type(c_ptr) function rest(bytes)
      character(*, c_char), intent(in), target :: bytes
      rest = c_null_ptr
      if (len(bytes) > 1) rest = c_loc(bytes(2:2))
   end function

   integer function key_make(k, key)
      type(dict_key), intent(out) :: k
      class(*), intent(in) :: key
      key_make = 0
      select type (key)
      type is (character(*))
         k%bytes = 's'//key
      type is (integer(int32))
         k%bytes = 'i'//decimal(int(key, int64))
      type is (integer(int64))
         k%bytes = 'i'//decimal(key)
      type is (dict_key)
         k%bytes = key%bytes
      class default
         key_make = no_key
         k%bytes = ''
      end select
   end function

   function decimal(number) result(text)
      integer(int64), intent(in) :: number
      character(:), allocatable :: text
      character(part_text) :: room
      write (room, '(i0)') number
      text = trim(room)
   end function

   ! --- errors ---

   subroutine finish(rc, stat, errmsg)
      integer, intent(in) :: rc
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      character(:), allocatable :: text
      if (present(stat)) stat = rc
      if (rc >= 0) return
      select case (rc)
      case (no_key)
         text = 'a key is a character, an integer(int32 or int64) or a tuple() of these'
      case (other_rank)
         text = 'the array is of another rank'
      case (too_large)
         text = 'the number does not fit in an integer(int32)'
      case default
         text = sentence()
      end select
      if (rc <= no_key .and. present(stat)) stat = ddict_etype
      if (present(errmsg)) errmsg = text
      if (present(stat)) return
      write (error_unit, '(2a)') 'ddict: ', text
      error stop 1
   end subroutine

   function sentence() result(text)
      character(:), allocatable :: text
      character(c_char), pointer :: p(:)
      type(c_ptr) :: from
      integer(c_size_t) :: i, n
      from = ddict_errmsg()
      n = strlen(from)
      call c_f_pointer(from, p, [n])
      allocate (character(n) :: text)
      do i = 1, n
         text(i:i) = p(i)
      end do
   end function

   ! --- put ---

   integer function store(self, key, v)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      type(value_t), intent(in) :: v
      type(dict_key) :: k
      store = key_make(k, key)
      if (store == 0) store = ddict_putv(self%handle, k%bytes, len(k%bytes, c_size_t), v%iov, v%n, v%flags, -1_c_int)
   end function

   ! extent: of Fortran's, the first index first
   integer function store_array(self, key, type, extent, data)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      character(*), intent(in) :: type
      integer, intent(in) :: extent(:)
      type(c_ptr), intent(in) :: data
      type(value_t), target :: v
      integer(c_size_t) :: turned(size(extent))
      turned = extent(size(extent):1:-1)
      store_array = ddict_value_array(v, type//c_null_char, size(extent, kind=c_int), turned, data)
      if (store_array == 0) store_array = store(self, key, v)
   end function

   subroutine put_text(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      character(*), intent(in) :: value
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(value_t), target :: v
      call ddict_value_str(v, value, len(value, c_size_t))
      call finish(store(self, key, v), stat, errmsg)
   end subroutine

   subroutine put_int32(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int32), intent(in), contiguous, target :: value(..)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int32), pointer :: one
      type(value_t), target :: v
      if (rank(value) == 0) then
         call c_f_pointer(c_loc(value), one)
         call ddict_value_int(v, int(one, int64))
         call finish(store(self, key, v), stat, errmsg)
         return
      end if
      call finish(store_array(self, key, '<i4', shape(value), c_loc(value)), stat, errmsg)
   end subroutine

   subroutine put_int64(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int64), intent(in), contiguous, target :: value(..)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int64), pointer :: one
      type(value_t), target :: v
      if (rank(value) == 0) then
         call c_f_pointer(c_loc(value), one)
         call ddict_value_int(v, one)
         call finish(store(self, key, v), stat, errmsg)
         return
      end if
      call finish(store_array(self, key, '<i8', shape(value), c_loc(value)), stat, errmsg)
   end subroutine

   subroutine put_real32(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real32), intent(in), contiguous, target :: value(..)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real32), pointer :: one
      type(value_t), target :: v
      if (rank(value) == 0) then
         call c_f_pointer(c_loc(value), one)
         call ddict_value_float(v, real(one, real64))
         call finish(store(self, key, v), stat, errmsg)
         return
      end if
      call finish(store_array(self, key, '<f4', shape(value), c_loc(value)), stat, errmsg)
   end subroutine

   subroutine put_real64(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real64), intent(in), contiguous, target :: value(..)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real64), pointer :: one
      type(value_t), target :: v
      if (rank(value) == 0) then
         call c_f_pointer(c_loc(value), one)
         call ddict_value_float(v, one)
         call finish(store(self, key, v), stat, errmsg)
         return
      end if
      call finish(store_array(self, key, '<f8', shape(value), c_loc(value)), stat, errmsg)
   end subroutine

   subroutine put_complex64(self, key, value, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      complex(real64), intent(in), contiguous, target :: value(..)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call finish(store_array(self, key, '<c16', shape(value), c_loc(value)), stat, errmsg)
   end subroutine

   ! --- get ---

   ! The view is to be released where the result is 0, and only there. wait: seconds.
   integer function hold(self, key, v, wait)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      type(view_t), intent(out) :: v
      real, intent(in), optional :: wait
      type(dict_key) :: k
      integer(c_int) :: flags, ms
      flags = 0
      ms = -1
      if (present(wait)) then
         flags = flag_wait
         ms = int(min(1000*max(real(wait, real64), 0.0_real64), 2.0e9_real64), c_int)
      end if
      hold = key_make(k, key)
      if (hold == 0) hold = ddict_view(self%handle, k%bytes, len(k%bytes, c_size_t), v, flags, ms)
      if (hold == ddict_enokey .and. present(wait)) hold = ddict_etimedout
   end function

   ! extent: as Fortran has it, the first index first
   integer function hold_array(self, key, type, extent, data, v, wait)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      character(*), intent(in) :: type
      integer(c_size_t), intent(out) :: extent(:)
      type(c_ptr), intent(out) :: data
      type(view_t), intent(out) :: v
      real, intent(in), optional :: wait
      type(array_t) :: a
      data = c_null_ptr
      extent = 0
      hold_array = hold(self, key, v, wait)
      if (hold_array < 0) return
      hold_array = ddict_read_array(v, type//c_null_char, a)
      if (hold_array == 0 .and. a%dims /= size(extent)) hold_array = other_rank
      if (hold_array < 0) then
         call ddict_release(v)
         return
      end if
      extent = a%shape(a%dims:1:-1)
      data = a%data
   end function

   subroutine get_text(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      character(:), allocatable, intent(out) :: value
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(view_t) :: v
      type(c_ptr) :: text
      character(c_char), pointer :: p(:)
      integer(c_size_t) :: i, n
      integer :: rc
      rc = hold(self, key, v, wait)
      if (rc == 0) then
         rc = ddict_read_str(v, text, n)
         if (rc == 0) then
            call c_f_pointer(text, p, [n])
            allocate (character(n) :: value)
            do i = 1, n
               value(i:i) = p(i)
            end do
         end if
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int32(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int32), intent(inout) :: value
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(view_t) :: v
      integer(int64) :: one
      integer :: rc
      rc = hold(self, key, v, wait)
      if (rc == 0) then
         rc = ddict_read_int(v, one)
         call ddict_release(v)
      end if
      if (rc == 0 .and. one /= int(one, int32)) rc = too_large
      if (rc == 0) value = int(one, int32)
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int64(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int64), intent(inout) :: value
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(view_t) :: v
      integer(int64) :: one
      integer :: rc
      rc = hold(self, key, v, wait)
      if (rc == 0) then
         rc = ddict_read_int(v, one)
         call ddict_release(v)
      end if
      if (rc == 0) value = one
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real32(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real32), intent(inout) :: value
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(view_t) :: v
      real(real64) :: one
      integer :: rc
      rc = hold(self, key, v, wait)
      if (rc == 0) then
         rc = ddict_read_float(v, one)
         call ddict_release(v)
      end if
      if (rc == 0) value = real(one, real32)
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real64(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real64), intent(inout) :: value
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(view_t) :: v
      real(real64) :: one
      integer :: rc
      rc = hold(self, key, v, wait)
      if (rc == 0) then
         rc = ddict_read_float(v, one)
         call ddict_release(v)
      end if
      if (rc == 0) value = one
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int32_1(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int32), allocatable, intent(out) :: value(:)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int32), pointer :: p(:)
      integer(c_size_t) :: n(1)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int32_2(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int32), allocatable, intent(out) :: value(:, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int32), pointer :: p(:, :)
      integer(c_size_t) :: n(2)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int32_3(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int32), allocatable, intent(out) :: value(:, :, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int32), pointer :: p(:, :, :)
      integer(c_size_t) :: n(3)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int64_1(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int64), allocatable, intent(out) :: value(:)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int64), pointer :: p(:)
      integer(c_size_t) :: n(1)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int64_2(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int64), allocatable, intent(out) :: value(:, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int64), pointer :: p(:, :)
      integer(c_size_t) :: n(2)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_int64_3(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      integer(int64), allocatable, intent(out) :: value(:, :, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(int64), pointer :: p(:, :, :)
      integer(c_size_t) :: n(3)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<i8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real32_1(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real32), allocatable, intent(out) :: value(:)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real32), pointer :: p(:)
      integer(c_size_t) :: n(1)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real32_2(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real32), allocatable, intent(out) :: value(:, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real32), pointer :: p(:, :)
      integer(c_size_t) :: n(2)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real32_3(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real32), allocatable, intent(out) :: value(:, :, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real32), pointer :: p(:, :, :)
      integer(c_size_t) :: n(3)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f4', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real64_1(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real64), allocatable, intent(out) :: value(:)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real64), pointer :: p(:)
      integer(c_size_t) :: n(1)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real64_2(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real64), allocatable, intent(out) :: value(:, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real64), pointer :: p(:, :)
      integer(c_size_t) :: n(2)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_real64_3(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      real(real64), allocatable, intent(out) :: value(:, :, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      real(real64), pointer :: p(:, :, :)
      integer(c_size_t) :: n(3)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<f8', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_complex64_1(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      complex(real64), allocatable, intent(out) :: value(:)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      complex(real64), pointer :: p(:)
      integer(c_size_t) :: n(1)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<c16', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_complex64_2(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      complex(real64), allocatable, intent(out) :: value(:, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      complex(real64), pointer :: p(:, :)
      integer(c_size_t) :: n(2)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<c16', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

   subroutine get_complex64_3(self, key, value, wait, stat, errmsg)
      class(dict), intent(in) :: self
      class(*), intent(in) :: key
      complex(real64), allocatable, intent(out) :: value(:, :, :)
      real, intent(in), optional :: wait
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      complex(real64), pointer :: p(:, :, :)
      integer(c_size_t) :: n(3)
      type(view_t) :: v
      type(c_ptr) :: data
      integer :: rc
      rc = hold_array(self, key, '<c16', n, data, v, wait)
      if (rc == 0) then
         call c_f_pointer(data, p, n)
         value = p
         call ddict_release(v)
      end if
      call finish(rc, stat, errmsg)
   end subroutine

end module
