package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A share is an option with a size, or a percentage of the disk.
type share struct {
	octets  octets
	percent int // 0: octets says it
}

func (s *share) Set(text string) error {
	if number, is := strings.CutSuffix(text, "%"); is {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 100 {
			return fmt.Errorf("%.40q is no percentage from 1%% to 100%%", text)
		}
		*s = share{percent: n}
		return nil
	}
	*s = share{}
	return s.octets.Set(text)
}

func (s *share) String() string {
	if s.percent > 0 {
		return strconv.Itoa(s.percent) + "%"
	}
	return s.octets.String()
}

func (s *share) Type() string { return "size" }

// on returns the octets on the disk of a directory, or where it would be made.
func (s *share) on(dir string) (int64, error) {
	if s.percent == 0 {
		return int64(s.octets), nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	for {
		var disk unix.Statfs_t
		err := unix.Statfs(dir, &disk)
		if err == nil {
			return int64(disk.Blocks) * disk.Bsize / 100 * int64(s.percent), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return 0, fmt.Errorf("size of the disk of %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}
