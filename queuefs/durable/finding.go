package durable

// A Finding is what a look at a file, an object, a document or a setting found.
type Finding struct {
	Level Level
	Path  string // of a file below its home, of an object, a URL, or a part of the machine, such as disk
	Text  string // what is wrong, and what was done about it
	Cure  string // what helps; "" if nothing is wrong, or the command has one hint for all
}

func (f Finding) String() string { return f.Path + ": " + f.Text }

// A Level is how bad a finding is.
type Level uint8

const (
	Faulty  Level = iota // to be mended
	Unread               // a file that cannot be read now, and may be whole
	Warning              // works, and may not for long, or not as expected
	Mended               // was faulty
	Fine
)

func (l Level) String() string { return [...]string{"fault", "unread", "warning", "mended", "ok"}[l] }

// Damage is a file that is faulty, or cannot be read now.
func Damage(path, text string, unread bool) Finding {
	f := Finding{Path: path, Text: text}
	if unread {
		f.Level = Unread
	}
	return f
}
