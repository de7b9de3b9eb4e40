package dashboard

import "html/template"

type rdmPage struct {
	head
	Text   template.HTML
	Manual string // URL of its topic
}

// RDM writes a page of RDM; text is HTML.
func RDM(v Site, title, text string) []byte {
	return v.write("rdm", &rdmPage{v.head(title, crumb{Class: "step", Text: "RDM"}), template.HTML(text), v.Base.Ref(ManualDir, "catalogs")})
}
