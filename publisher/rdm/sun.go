package rdm

import (
	"io"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// readSun reads the first object of a submission to the Sun Portal Search. The
// kind of submission (persistent and the like) makes no difference here.
func (x *exchange) readSun() error {
	if x.csid = strings.TrimSpace(x.sun.Value("submit-csid")); x.csid == "" {
		if database := strings.TrimSpace(x.sun.Value("submit-database")); database != "" {
			x.csid = catalogID(x.base, database)
		}
	}
	switch operation := strings.ToLower(strings.TrimSpace(x.sun.Value("submit-operation"))); operation {
	case "insert", "update":
		x.submission = RDResponse
	case "delete":
		x.submission = RDResponseDeleted
	case "retrieve":
		x.typ = RDRequest
		return x.ask("", "", x.sun.Value("submit-view"), "", "")
	default:
		return badRequest("submit-operation %.40q is none of insert, update, delete, retrieve", operation)
	}
	return nil
}

// retrieveNamed answers with the descriptions of the jobs named in the message.
// Missing jobs are left out.
func (x *exchange) retrieveNamed(in *soif.Reader) error {
	if err := x.find(web.Read); err != nil {
		return err
	}
	var b []byte
	places, _ := x.view.selection(nil)
	n, found := 0, int64(0)
	for held := x.memory.Held(); ; n++ {
		x.memory.Return(held) // of the last object
		if err := x.memory.Take(cap(b)); err != nil {
			return err
		}
		o, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if n == x.h.o.MaxObjects {
			return &web.Error{Status: 413, Message: "more objects than the " + number(int64(n)) + " that are taken"}
		}
		id, own, err := x.own(o.URL)
		if err != nil {
			return err
		}
		if !own {
			return badRequest("URL %.80q is not that of a job here", o.URL)
		}
		e, ok := x.catalog.Entry(id)
		if !ok {
			continue
		}
		s := ofEntry(x.catalog, &e)
		f := finder{q: x.catalog}
		if ok, err = f.read(&s); err != nil {
			return err
		}
		if !ok {
			continue
		}
		if b = x.appendDescription(b, &s, places); len(b) > x.h.o.MaxObject {
			return &web.Error{Status: 413, Message: "answer has more than " + number(int64(x.h.o.MaxObject)) + " octets, ask for fewer"}
		}
		found++
	}
	head := Header{Type: RDResponse, Catalog: x.answered(), Interpret: number(found) + " " + documentObject + " objects"}
	if found == 0 {
		head.Interpret, head.Error = "", "0 results"
	}
	if err := x.out.write(head.append(nil)); err != nil {
		return err
	}
	return x.out.write(b)
}
