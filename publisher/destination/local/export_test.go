package local

// NameAll makes d take every file system for one without unnamed files.
func NameAll(d *Dir) { d.unnamed = false }

// LinkByPath makes d give unnamed files their names as an old kernel wants it.
func LinkByPath(d *Dir) { d.byPath.Store(true) }
