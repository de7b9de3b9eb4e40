package state

import (
	"bytes"
	"text/template"
)

// Schemas are the classes with schemas, by their names in URLs: "queue" is for
// queue.xsd and queue.json.
var Schemas = map[string]*Class{
	"service":   ServiceClass,
	"queue":     QueueClass,
	"job":       JobClass,
	"batch":     BatchClass,
	"exception": ExceptionClass,
}

// ClassNamed returns the class with a schema of this name: that in [Schemas], or the
// type of its documents. It is nil if there is none.
func ClassNamed(name string) *Class {
	if c := Schemas[name]; c != nil {
		return c
	}
	for _, c := range Schemas {
		if c.Root == name {
			return c
		}
	}
	return Facts[name]
}

// XMLSchema returns the XML Schema of the documents of c in XML. Elements of
// other namespaces may follow those of c.
func XMLSchema(c *Class) []byte { return schemaOf("xsd", c) }

// JSONSchema returns the JSON Schema, draft 2020-12, of the documents of c in
// JSON. Further properties are allowed.
func JSONSchema(c *Class) []byte { return schemaOf("json", c) }

func schemaOf(language string, c *Class) []byte {
	var b bytes.Buffer
	if err := schemas.ExecuteTemplate(&b, language, c); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// typeNames are the types in XML Schema and in JSON Schema.
var typeNames = [...]struct{ XML, JSON string }{
	String:    {"xs:string", `"type":"string"`},
	Integer:   {"xs:long", `"type":"integer"`},
	Boolean:   {"xs:boolean", `"type":"boolean"`},
	Date:      {"xs:dateTime", `"type":"string","format":"date-time"`},
	Reference: {"xs:anyURI", `"type":"string","format":"uri-reference"`},
	Object:    {"", `"type":"object"`}, // in facts alone, which have no XML
}

var schemas = template.Must(template.New("").Funcs(template.FuncMap{
	"xml":  func(t Type) string { return typeNames[t].XML },
	"json": func(t Type) string { return typeNames[t].JSON },
}).Parse(`
{{- define "xsd" -}}
<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{{.Namespace}}" elementFormDefault="qualified"
{{- if .List}} xmlns:{{.Prefix}}="{{.Namespace}}"{{end}}>
    <xs:element name="{{.Root}}">
        <xs:complexType>
            <xs:sequence>
{{- range .Terms}}
                <xs:element name="{{.Name}}"
{{- if .Item}}{{if not .Always}} minOccurs="0"{{end}}>
                    <xs:complexType>
                        <xs:sequence>
                            <xs:element name="{{.Item}}" type="{{xml .Type}}" minOccurs="0" maxOccurs="unbounded"/>
                        </xs:sequence>
                    </xs:complexType>
                </xs:element>
{{- else}} type="{{xml .Type}}" minOccurs="0"/>{{end}}
{{- end}}
                <xs:any namespace="##other" processContents="lax" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
{{- if .List}}
    <xs:element name="{{.List}}">
        <xs:complexType>
            <xs:sequence>
                <xs:element ref="{{.Prefix}}:{{.Root}}" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
{{- end}}
</xs:schema>
{{end}}

{{- define "json" -}}
{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"{{.Root}}","type":"object",
{{- ""}}"required":["@context","@type"
{{- range .Terms}}{{if .Always}},"{{.Name}}"{{end}}{{end -}}
],"properties":{"@context":{"const":{"@vocab":"{{.Namespace}}/"}},
"@type":{"const":"{{.Root}}"},
"@id":{ {{- json 4 -}} }
{{- range .Terms}},
"{{.Name}}":{ {{- if .Item}}"type":"array","items":{ {{- json .Type}}}{{else}}{{json .Type}}{{end}}}
{{- end}}}}
{{end}}`))
