package local

// NameAll makes d take every file system for one without unnamed files.
func NameAll(d *Dir) { d.unnamed = false }
