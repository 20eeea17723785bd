// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
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
)

// TestEveryReasonIsExplained checks that a page in docs/ explains every reason of conditions,
// statuses and events.
func TestEveryReasonIsExplained(t *testing.T) {
	root := filepath.Join("..", "..")
	reasons := map[string]string{}
	for _, part := range []string{"apiserver", "controllers", "netagent", "registry"} {
		if err := collectReasons(filepath.Join(root, part), reasons); err != nil {
			t.Fatal(err)
		}
	}
	if len(reasons) < 100 {
		t.Fatalf("the code has %d reasons: the test does not see them any more", len(reasons))
	}
	explained, err := wordsOfPages(filepath.Join(root, "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !explained[reason] {
			t.Errorf("%s: no page explains the reason %s", reasons[reason], reason)
		}
	}
}

// collectReasons adds the reasons in the Go files below a directory to reasons, with their
// positions. Reasons are strings that are assigned to a name with the word reason, and reasons of
// recorded events.
func collectReasons(directory string, reasons map[string]string) error {
	files := token.NewFileSet()
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		note := func(value ast.Expr) {
			literal, ok := value.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && isReason.MatchString(text) {
				reasons[text] = files.Position(literal.Pos()).String()
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if namesReason(n.Names[i]) {
						note(value)
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
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && (called.Sel.Name == "Event" || called.Sel.Name == "Eventf") && len(n.Args) > 3 {
					note(n.Args[2])
				}
			}
			return true
		})
		return nil
	})
}

// isReason matches reasons in the format of the Kubernetes API conventions.
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

// wordsOfPages returns all words of the pages that are not generated.
func wordsOfPages(directory string) (map[string]bool, error) {
	pages, err := filepath.Glob(filepath.Join(directory, "*.md"))
	if err != nil {
		return nil, err
	}
	words := map[string]bool{}
	for _, page := range pages {
		if filepath.Base(page) == "api-reference.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		for _, found := range word.FindAllString(string(text), -1) {
			words[found] = true
		}
	}
	return words, nil
}

var word = regexp.MustCompile(`[A-Za-z]+`)
