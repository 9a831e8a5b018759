! SPDX-License-Identifier: Apache-2.0
! languages.f90 - the Fortran side of test_languages.py: "put" stores, "check" reads what Python stored, "self" looks at errors, "queue" at queues.
program languages
   use ddict
   implicit none
   type(dict) :: d
   character(8) :: what
   integer :: n
   call get_command_argument(1, what)
   call d%attach()
   select case (what)
   case ('put')
      call put_all()
   case ('check')
      call check_all()
   case ('self')
      call look()
   case ('queue')
      call queue_up()
   case default
      call d%get('none', n)
   end select
   call d%detach()

contains

   subroutine must(true, which)
      logical, intent(in) :: true
      character(*), intent(in) :: which
      if (true) return
      print '(2a)', 'wrong: ', which
      stop 1
   end subroutine

   ! element number i, from 0 on, is i
   subroutine put_all()
      integer(int32) :: i4(2, 3)
      integer(int64) :: i8(3)
      real(real32) :: f4(2, 3)
      real(real64) :: f8(4, 5, 6), wide(8, 3)
      complex(real64) :: c(2)
      integer :: i
      i4 = reshape([(i, i=0, 5)], [2, 3])
      i8 = [0_int64, 1_int64, 2_int64**40]
      f4 = i4
      f8 = reshape([(real(i, real64), i=0, 119)], [4, 5, 6])
      wide = reshape([(real(i, real64), i=0, 23)], [8, 3])
      c = [(1.0_real64, 2.0_real64), (3.0_real64, 4.0_real64)]
      call d%put('n', -42)
      call d%put('big', 2_int64**40)
      call d%put('yes', .true.)
      call d%put('no', .false.)
      call d%put(7, 0.5_real64)
      call d%put('single', 0.25)
      call d%put(tuple(1, 'x'), 'gr'//char(195)//char(188)//char(195)//char(159))
      call d%put(tuple('deep', tuple(2_int64**40, 'z')), '')
      call d%put('<i4', i4)
      call d%put('<i8', i8)
      call d%put('<f4', f4)
      call d%put('<f8', f8)
      call d%put('<c16', c)
      call d%put('section', wide(2:8:3, :))
      call d%put('empty', i8(1:0))
   end subroutine

   subroutine check_all()
      integer(int64) :: big
      real(real32) :: single
      real(real64) :: x
      character(:), allocatable :: text
      integer(int32), allocatable :: i4(:, :)
      integer(int64), allocatable :: i8(:), none(:)
      real(real32), allocatable :: f4(:, :)
      real(real64), allocatable :: f8(:, :, :), section(:, :)
      complex(real64), allocatable :: c(:)
      logical :: yes, no
      integer :: i
      call d%get('yes', yes)
      call d%get('no', no)
      call must(yes .and. .not. no, 'bool')
      call d%get('n', n)
      call must(n == -42, 'n')
      call d%get('n', x)
      call must(x == -42, 'a real of an int')
      call d%get('big', big, wait=10.0)
      call must(big == 2_int64**40, 'big')
      call d%get(7, x)
      call must(x == 0.5_real64, '7')
      call d%get('single', single)
      call must(single == 0.25, 'single')
      call d%get(tuple(1, 'x'), text)
      call must(text == 'gr'//char(195)//char(188)//char(195)//char(159) .and. len(text) == 6, '(1, x)')
      call d%get(tuple('deep', tuple(2_int64**40, 'z')), text)
      call must(len(text) == 0, 'deep')
      call d%get('<i4', i4)
      call must(all(shape(i4) == [2, 3]) .and. all(reshape(i4, [6]) == [(i, i=0, 5)]), '<i4')
      call d%get('<i8', i8)
      call must(all(i8 == [0_int64, 1_int64, 2_int64**40]), '<i8')
      call d%get('<f4', f4)
      call must(all(shape(f4) == [2, 3]) .and. f4(2, 3) == 5 .and. f4(2, 1) == 1, '<f4')
      call d%get('<f8', f8)
      call must(all(shape(f8) == [4, 5, 6]) .and. f8(2, 1, 1) == 1 .and. f8(1, 1, 2) == 20, '<f8')
      call d%get('<c16', c)
      call must(size(c) == 2 .and. c(2) == (3.0_real64, 4.0_real64), '<c16')
      call d%get('section', section)
      call must(all(shape(section) == [3, 3]) .and. section(2, 1) == 4 .and. section(1, 2) == 9, 'section')
      call d%get('empty', none)
      call must(size(none) == 0 .and. d%has('empty') .and. .not. d%has('none'), 'empty')
   end subroutine

   ! A queue, to which Python has pushed "first" and which Python reads on.
   subroutine queue_up()
      character(:), allocatable :: text
      real(real64), allocatable :: w(:)
      real(real64) :: x
      integer :: stat
      character(200) :: why
      call must(d%queued('q') == 1 .and. d%queued('none') == 0, 'queued')
      call d%pop('q', text)
      call must(text == 'first', 'first')
      call d%pop('q', n, wait=0.05, stat=stat)
      call must(stat == ddict_etimedout, 'an empty one')
      call d%pop('q', n, stat=stat, errmsg=why)
      call must(stat == ddict_enokey .and. why /= '', 'at once')
      call d%push(tuple('q', 2), 7)
      call d%push(tuple('q', 2), [1.0_real64, 2.0_real64])
      call d%push(tuple('q', 2), 'text')
      call d%push(tuple('q', 2), .true.)
      call d%push(tuple('q', 2), 0.5)
      call must(d%queued(tuple('q', 2)) == 5, 'five')
      call d%pop(tuple('q', 2), n, wait=10.0)
      call d%pop(tuple('q', 2), w)
      call must(n == 7 .and. all(w == [1.0_real64, 2.0_real64]), 'in order')
      call d%pop(tuple('q', 2), x, stat=stat)
      call must(stat == ddict_etype .and. d%queued(tuple('q', 2)) == 2, 'a text is no number')
      call d%push(1.5, 1, stat=stat, errmsg=why)
      call must(stat == ddict_etype .and. index(why, 'key') > 0, 'a real is no key')
   end subroutine

   subroutine look()
      integer :: stat
      integer(int64) :: big
      real(real64), allocatable :: w(:), m(:, :)
      character(200) :: why
      type(dict) :: other
      logical :: yes
      call d%clear()
      n = 5
      why = 'untouched'
      call d%get('none', n, stat=stat, errmsg=why)
      call must(stat == ddict_enokey .and. n == 5 .and. why /= 'untouched' .and. why /= '', 'no key')
      call d%get('none', n, wait=0.05, stat=stat)
      call must(stat == ddict_etimedout, 'a wait ends')
      call d%put('m', reshape([1.0_real64, 2.0_real64], [2, 1]), stat=stat, errmsg=why)
      call must(stat == 0, 'put')
      allocate (w(3))
      call d%get('m', w, stat=stat, errmsg=why)
      call must(stat == ddict_etype .and. .not. allocated(w) .and. index(why, 'rank') > 0, 'rank')
      call d%get('m', n, stat=stat)
      call must(stat == ddict_etype .and. n == 5, 'an array is no number')
      call d%put('n', 2_int64**31)
      call d%get('n', n, stat=stat)
      call must(stat == ddict_etype .and. n == 5, 'too large')
      call d%get('n', big)
      call must(big == 2_int64**31, 'large')
      call d%put('n', -2_int64**31)
      call d%get('n', n)
      call must(n == -huge(n) - 1, 'the smallest')
      call d%put('n', 2_int64**31)
      yes = .true.
      call d%get('n', yes, stat=stat)
      call must(stat == ddict_etype .and. yes, 'a number is no truth')
      call d%get('n', m, stat=stat)
      call must(stat == ddict_etype .and. .not. allocated(m), 'a number is no array')
      call d%put(1.5, 1, stat=stat, errmsg=why)
      call must(stat == ddict_etype .and. index(why, 'key') > 0, 'a real is no key')
      call d%put(tuple(1, 1.5), 1, stat=stat)
      call must(stat < 0, 'nor a part of one')
      call must(d%size() == 2, 'size')
      call d%erase('n')
      call d%erase('n', stat=stat)
      call must(stat == ddict_enokey .and. d%size() == 1, 'erase')
      call other%attach('no.such.dictionary', stat=stat, errmsg=why)
      call must(stat == ddict_enodict .and. why /= '', 'no dictionary')
   end subroutine
end program
