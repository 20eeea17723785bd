// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// document is a document of SPDX 2.3. It and the types below have the fields of the standard that this package uses:
// https://spdx.github.io/spdx-spec/v2.3/
type document struct {
	Version       string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	CreationInfo  creationInfo   `json:"creationInfo"`
	Packages      []element      `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// element is a package of the document.
type element struct {
	Name             string        `json:"name"`
	ID               string        `json:"SPDXID"`
	Version          string        `json:"versionInfo,omitempty"`
	Purpose          string        `json:"primaryPackagePurpose,omitempty"`
	DownloadLocation string        `json:"downloadLocation"`
	FilesAnalyzed    bool          `json:"filesAnalyzed"`
	Checksums        []checksum    `json:"checksums,omitempty"`
	SourceInfo       string        `json:"sourceInfo,omitempty"`
	ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const documentID = "SPDXRef-DOCUMENT"

// newDocument returns a document about main. Packages are added to it with add.
func newDocument(name string, created time.Time, main element) *document {
	d := &document{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: documentID, Name: name,
		CreationInfo: creationInfo{Created: created.UTC().Format("2006-01-02T15:04:05Z"),
			Creators: []string{"Organization: The Liqo Federation Authors", "Tool: playground"}},
	}
	d.add(documentID, "DESCRIBES", main)
	return d
}

// add adds packages and, for each of them, the relationship of the element with this ID to the package.
func (d *document) add(id, relation string, packages ...element) {
	for _, p := range packages {
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{Element: id, Type: relation, Related: p.ID})
	}
}

// marshal returns the document in JSON, with a namespace that differs for each content. It fails if two packages have
// the same ID.
func (d *document) marshal() ([]byte, error) {
	seen := map[string]bool{}
	for _, p := range d.Packages {
		if seen[p.ID] {
			return nil, fmt.Errorf("two packages have the ID %s", p.ID)
		}
		seen[p.ID] = true
	}
	d.Namespace = ""
	text, err := encode(d)
	if err != nil {
		return nil, err
	}
	d.Namespace = fmt.Sprintf("https://liqo.io/spdx/%x", sha256.Sum256(text))
	return encode(d)
}

func encode(d *document) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return out.Bytes(), err
}

// newElement returns a package of which no files are listed. The kind is part of its ID.
func newElement(kind, name, version, locator string) element {
	return element{Name: name, ID: "SPDXRef-" + kind + "-" + notInIDs.ReplaceAllString(name, "-"), Version: version,
		DownloadLocation: "NOASSERTION",
		ExternalRefs:     []externalRef{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: locator}}}
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// escape returns a version or a qualifier as it is written in a package URL, in which colons are not escaped.
func escape(text string) string {
	// QueryEscape writes a space as +. In package URLs, a space is %20.
	return strings.NewReplacer("+", "%20", "%3A", ":").Replace(url.QueryEscape(text))
}
