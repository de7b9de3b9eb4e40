package dashboard

import (
	"fmt"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// opposite are the methods for many jobs and those undoing them. Nothing brings outcomes and
// attempts of requeued jobs back; hold keeps workers from them.
var opposite = map[string]string{"hold": "release", "release": "hold", "delete": "requeue", "requeue": "hold"}

// past says in a word that jobs were changed by a method.
var past = map[string]string{"hold": "put on hold", "release": "released", "delete": "deleted", "requeue": "requeued"}

// An undoForm asks for the preview of the change back.
type undoForm struct{ Action, Method, Jobs, Label, Hint string }

// tellChanges says above the state of a queue what a method has changed in it.
func (p *statePage) tellChanges(d *state.Document, v *rest.View) {
	c, err := d.Changes()
	if err != nil {
		return
	}
	n := grouped(fmt.Sprint(len(c.Changed)))
	p.Lead, p.List, p.Actions, p.Saved = "", nil, nil, ""
	done := note{"good", n + " jobs were " + past[v.Changed] + "."}
	switch len(c.Changed) {
	case 0:
		done = note{"warn", "No job was " + past[v.Changed] + "."}
	case 1:
		done.Text = "1 job was " + past[v.Changed] + "."
	}
	if c.More {
		done.Text += " There are more: the same change may be made again."
	}
	p.Notes = append(p.Notes, done)
	if len(c.Refused) > 0 {
		p.Notes = append(p.Notes, note{"warn", "Not changed: " + strings.Join(c.Refused, "\n")})
	}
	queue := lastSegment(d.Subject)
	back := opposite[v.Changed]
	if len(c.Changed) == 0 || back == "" || !v.Reads(d) || v.May != nil && !v.May("POST", d.Base.Ref(back, queue)[len(d.Base):]) {
		return
	}
	p.Undo = &undoForm{Action: d.Base.Ref("bulk", queue), Method: back, Jobs: ranges(c.Changed), Label: "Undo: " + back + " " + n + " …", Hint: "The next page says how many change."}
	if v.Changed == "requeue" {
		p.Undo.Label, p.Undo.Hint = "Hold these "+n+" …", "Workers can take them now. A requeue has no undo: it drops outcomes and attempts. Jobs on hold are not taken."
	}
}

// ranges prints jobs in order, such as "j000000000001-j000000000020 j000000000031".
func ranges(ids []queuefs.JobID) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		end := i
		for end+1 < len(ids) && ids[end+1] == ids[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(ids[i].String())
		if end > i {
			b.WriteString("-" + ids[end].String())
		}
		i = end + 1
	}
	return b.String()
}
