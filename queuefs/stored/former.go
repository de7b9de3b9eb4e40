package stored

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// A directory that has to be made again keeps the files it has in cutie-former until the new
// ones are whole: what the store has lost may be in them alone. They are a home of their own.
// The marker there is written last, and removed first.
//
//	cutie-former     the directory        a crash before the next step
//	none             has its files        as it was
//	without marker   has the others       the next opening puts the parts back
//	whole            is being made again  the next opening makes it again, or puts them back if nobody has passed them
//	whole            whole                the next opening goes on
//	none             whole                as it stands
const formerName = "cutie-former"

// homeParts are what makes a home of a directory, below it. Some are directories.
var homeParts = []string{home.ListName, absentName, home.CallbacksDir, home.QueuesDir, home.PublishedDir}

// parts calls do with each part of the directory that is made again from the store, and with
// its directory.
func parts(dir *durable.Dir, do func(in *durable.Dir, below, name string) error) error {
	for _, name := range homeParts {
		if err := do(dir, "", name); err != nil {
			return err
		}
	}
	if err := within(dir, home.LogDir, func(log *durable.Dir) error { return do(log, home.LogDir, home.IndexDir) }); err != nil {
		return err
	}
	return within(dir, home.TempDir, func(temp *durable.Dir) error {
		var names []string
		err := temp.Names(func(name string) {
			if strings.HasPrefix(name, durable.TempPrefix) {
				names = append(names, name)
			}
		})
		for _, name := range names {
			if err == nil {
				err = do(temp, home.TempDir, name)
			}
		}
		return err
	})
}

// within calls do with a directory below dir, if it is there.
func within(dir *durable.Dir, name string, do func(*durable.Dir) error) error {
	sub, err := dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(sub), sub.Close())
}

// move moves the parts of one directory to another one, where they are not, and syncs both.
func move(from, to *durable.Dir) error {
	err := parts(from, func(in *durable.Dir, below, name string) error {
		at := to
		if below != "" {
			sub, err := to.MakeSub(below)
			if err != nil {
				return err
			}
			defer sub.Close()
			at = sub
		}
		err := in.Rename(name, at, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, syscall.EXDEV): // mounted here: it cannot be kept
			return in.RemoveTree(name)
		}
		return errors.Join(err, at.Sync(), in.Sync())
	})
	return errors.Join(err, from.Sync(), to.Sync())
}

// former returns the marker of the files kept in cutie-former, nil if none are. Parts of an
// interrupted move are put back.
func (m *marker) former() (f *marker, err error) {
	err = within(m.dir, formerName, func(kept *durable.Dir) error {
		f = &marker{dir: kept}
		if err := f.read(); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrDamaged) {
			return err
		}
		f = nil
		return m.putBack(kept)
	})
	return f, err
}

// putBack moves the parts from cutie-former back. It goes on where it was cut off.
func (m *marker) putBack(kept *durable.Dir) error {
	if err := move(kept, m.dir); err != nil {
		return err
	}
	return errors.Join(m.dir.RemoveTree(formerName), m.dir.Sync())
}

// takeBack replaces the parts of the directory by those in cutie-former.
func (m *marker) takeBack(f *marker, temp *durable.Dir) error {
	if err := clear(m.dir, temp); err != nil {
		return err
	}
	m.id, m.claim = f.id, f.claim
	if err := m.write(); err != nil { // the same as there: until that is gone nothing is moved
		return err
	}
	return within(m.dir, formerName, func(kept *durable.Dir) error {
		if err := errors.Join(home.CopyNames(kept, m.dir), kept.Remove(markerName), kept.Sync()); err != nil {
			return err
		}
		return m.putBack(kept)
	})
}

// makeRoom takes all parts out of the directory. If they are whole, and cutie-former has
// none, it keeps them there.
func (m *marker) makeRoom(temp *durable.Dir) error {
	f, err := m.former()
	if err != nil {
		return err
	}
	if f == nil && m.whole {
		err = m.setAside()
	}
	m.whole = false
	if err == nil {
		err = m.writeAs(0)
	}
	if err == nil {
		err = clear(m.dir, temp)
	}
	return err
}

// setAside moves all parts to cutie-former.
func (m *marker) setAside() error {
	kept, err := m.dir.MakeSub(formerName)
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := home.CopyNames(m.dir, kept); err != nil { // with them it is a home
		return err
	}
	if err := move(m.dir, kept); err != nil {
		return err
	}
	return (&marker{dir: kept, id: m.id, journal: m.journal, whole: true}).writeAs(m.was)
}

// clear removes all parts of the directory. The largest ones are moved away only, see
// [Home.SweepFormer].
func clear(dir, temp *durable.Dir) error {
	return parts(dir, func(in *durable.Dir, _, name string) error {
		if name == home.QueuesDir || name == home.PublishedDir {
			return errors.Join(home.MoveAway(in, temp, name), in.Sync())
		}
		return errors.Join(in.RemoveTree(name), in.Sync())
	})
}

// Kept adds to an error of an opening where the files are that the directory had before.
func (h *Home) Kept(err error) error {
	if _, e := h.marker.dir.Stat(formerName); e != nil {
		return err
	}
	return fmt.Errorf("%w; the files that the directory had before are kept in %s/%s", err, h.marker.dir.Path(), formerName)
}

// dropFormer removes the files of before: the new ones are whole.
func (m *marker) dropFormer(temp *durable.Dir) error {
	return errors.Join(home.MoveAway(m.dir, temp, formerName), m.dir.Sync())
}
