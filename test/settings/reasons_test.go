// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const reasonsIntro = `# Reasons

Reasons of conditions, statuses and events, with their meaning and what to do. An empty cell requires no action.
This page is written by ` + "`go test ./test/settings -update`" + ` from the comments of the constants.

Not in the table are:

- ` + "`Move`" + ` and a phase, of events on claims and VirtualVolumes: see [the phases of a move](moving-volumes.md).
- ` + "`NamespaceRefused`, `NamespaceFailed` and `NamespaceConflict`" + `, of events on a NamespaceOffloading: the
  provider refuses the remote namespace, could not create it, or has another namespace of that name.
- Reasons of the provider's events on a remote pod. They become events on the local pod, and the message begins with
  the name of the provider.

| reason | on | meaning | what to do |
| --- | --- | --- | --- |
`

// TestEveryReasonIsOnThePage checks that every reason of conditions, statuses and events is a constant whose comment
// has its meaning, and that docs/reasons.md has the comments.
func TestEveryReasonIsOnThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	reasons, rows := map[string]string{}, map[string]string{}
	for _, part := range []string{"apiserver", "controllers", "netagent", "registry"} {
		if err := collectReasons(filepath.Join(root, part), reasons, rows); err != nil {
			t.Fatal(err)
		}
	}
	if len(reasons) < 150 {
		t.Fatalf("the code has %d reasons: the test does not see them any more", len(reasons))
	}
	for _, position := range slices.Sorted(maps.Keys(reasons)) {
		if rows[position] == "" {
			t.Errorf("%s: %s must be a constant with the comment \"<constant> of the condition Ready of a Pod means that …\". "+
				"The comment of its block may be \"Reasons of …\" instead of the object", position, reasons[position])
		}
	}
	page := reasonsIntro + strings.Join(slices.Compact(slices.Sorted(maps.Values(rows))), "")
	path := filepath.Join(root, "docs", "reasons.md")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page, string(got)); diff != "" {
		t.Errorf("docs/reasons.md (-want +got); run with -update:\n%s", diff)
	}
}

var (
	reasonsOf = regexp.MustCompile(`^Reasons of (.+?)\.( |$)`)
	// reasonMeans has the object of a reason, its meaning, and what to do.
	reasonMeans = regexp.MustCompile(`^\w+(?: of (.+?))? means that (.+?)\.(?: (.*))?$`)
	linkInCode  = regexp.MustCompile(`docs/((\S+?\.md)(?:#[-a-z]+)?)`)
)

// documented returns the row of a constant with a comment, or of a block with one; empty without a comment in the
// required form.
func documented(block *ast.GenDecl, constant *ast.ValueSpec, reason string) string {
	comment := constant.Doc
	if comment == nil {
		comment = block.Doc
	}
	means := reasonMeans.FindStringSubmatch(cell(comment.Text()))
	if means == nil {
		return ""
	}
	of := means[1]
	if of == "" {
		shared := reasonsOf.FindStringSubmatch(cell(block.Doc.Text()))
		if shared == nil {
			return ""
		}
		of = shared[1]
	}
	remedy := linkInCode.ReplaceAllString(means[3], "[$2]($1)")
	row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", reason, strings.TrimPrefix(of, "the "), means[2], remedy)
	return strings.ReplaceAll(row, "|  |", "| |")
}

// collectReasons adds the reasons below a directory by position: strings that are assigned to names with the word
// reason, and those of recorded events. It adds the rows of constants by position, too.
func collectReasons(directory string, reasons, rows map[string]string) error {
	files := token.NewFileSet()
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		note := func(value ast.Expr) (position, reason string) {
			literal, ok := value.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return "", ""
			}
			position = files.Position(literal.Pos()).String()
			if text, err := strconv.Unquote(literal.Value); err == nil && isReason.MatchString(text) {
				reasons[position] = text
			}
			return position, reasons[position]
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					constant, ok := spec.(*ast.ValueSpec)
					if !ok || len(constant.Values) != 1 || !namesReason(constant.Names[0]) {
						continue
					}
					if position, reason := note(constant.Values[0]); reason != "" {
						rows[position] = documented(n, constant, reason)
					}
				}
			case *ast.AssignStmt:
				for i, value := range n.Rhs {
					if len(n.Lhs) == len(n.Rhs) && namesReason(n.Lhs[i]) {
						note(value)
					}
				}
			case *ast.KeyValueExpr:
				if namesReason(n.Key) {
					note(n.Value)
				}
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && (called.Sel.Name == "Event" || called.Sel.Name == "Eventf") &&
					len(n.Args) > 3 {
					note(n.Args[2])
				}
			}
			return true
		})
		return nil
	})
}

// isReason matches the format of reasons in the Kubernetes API conventions.
var isReason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

func namesReason(name ast.Expr) bool {
	switch name := name.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(name.Name), "reason")
	case *ast.SelectorExpr:
		return namesReason(name.Sel)
	}
	return false
}
