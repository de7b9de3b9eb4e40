package store

import (
	"os"

	"cutie/queuefs/durable"
)

// A File has a temporary name until it is complete and on stable storage.
type File struct {
	*os.File
	root *durable.Dir
	name string // "" once it is in place
}

// Temp begins a file.
func (s *Store) Temp() (*File, error) {
	root := s.Root()
	f, name, err := root.Temp()
	if err != nil {
		return nil, err
	}
	return &File{File: f, root: root, name: name}, nil
}

// Commit gives the file its name in a directory, over an older one.
func (f *File) Commit(to *durable.Dir, name string) error {
	if err := f.root.SyncFile(f.File); err != nil {
		return err
	}
	if err := f.root.Rename(f.name, to, name); err != nil {
		return err
	}
	f.name = ""
	return to.Sync()
}

// Identity returns the identity of the file in its place.
func (f *File) Identity() (durable.Identity, error) { return durable.IdentityOf(f.File) }

// Discard closes the file, and removes it unless it is in place. If that fails,
// opening the home removes it.
func (f *File) Discard() {
	f.Close()
	if f.name != "" {
		f.root.Remove(f.name)
	}
}

// Cut cuts a file to a length. A shorter one is damaged.
func Cut(file *os.File, length int64) error {
	st, err := file.Stat()
	switch {
	case err != nil:
		return err
	case st.Size() < length:
		return Damaged("%s has %d octets of %d", file.Name(), st.Size(), length)
	case st.Size() > length:
		return file.Truncate(length)
	}
	return nil
}
