// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestAllNamesFirstAuthorizesByNameOnlyAfterARefusal(t *testing.T) {
	broken := errors.New("connection refused")
	named := authorizer.AttributesRecord{ResourceRequest: true, Verb: "get", Namespace: "shop",
		Resource: "shadowpods", Name: "web-0"}
	unnamed := named
	unnamed.Name = ""
	path := authorizer.AttributesRecord{Verb: "get", Path: "/metrics", Name: "ignored"}

	tests := map[string]struct {
		attributes authorizer.Attributes
		allNames   authorizer.Decision
		byName     authorizer.Decision
		err        error
		want       authorizer.Decision
		wantNames  []string
	}{
		"allowed for all names, so for this one": {
			attributes: named, allNames: authorizer.DecisionAllow, byName: authorizer.DecisionDeny,
			want: authorizer.DecisionAllow, wantNames: []string{""},
		},
		"no opinion about all names, allowed by name": {
			attributes: named, allNames: authorizer.DecisionNoOpinion, byName: authorizer.DecisionAllow,
			want: authorizer.DecisionAllow, wantNames: []string{"", "web-0"},
		},
		"denied for all names, allowed by name": {
			attributes: named, allNames: authorizer.DecisionDeny, byName: authorizer.DecisionAllow,
			want: authorizer.DecisionAllow, wantNames: []string{"", "web-0"},
		},
		"refused both ways": {
			attributes: named, allNames: authorizer.DecisionNoOpinion, byName: authorizer.DecisionNoOpinion,
			want: authorizer.DecisionNoOpinion, wantNames: []string{"", "web-0"},
		},
		"denied by name": {
			attributes: named, allNames: authorizer.DecisionNoOpinion, byName: authorizer.DecisionDeny,
			want: authorizer.DecisionDeny, wantNames: []string{"", "web-0"},
		},
		"an error is not retried": {
			attributes: named, allNames: authorizer.DecisionNoOpinion, byName: authorizer.DecisionAllow, err: broken,
			want: authorizer.DecisionNoOpinion, wantNames: []string{""},
		},
		"a request for all objects is authorized once": {
			attributes: unnamed, allNames: authorizer.DecisionNoOpinion,
			want: authorizer.DecisionNoOpinion, wantNames: []string{""},
		},
		"a path has no names": {
			attributes: path, byName: authorizer.DecisionAllow,
			want: authorizer.DecisionAllow, wantNames: []string{"ignored"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			delegate := authorizer.AuthorizerFunc(
				func(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
					names = append(names, attributes.GetName())
					if attributes.GetNamespace() != test.attributes.GetNamespace() ||
						attributes.GetResource() != test.attributes.GetResource() || attributes.GetVerb() != test.attributes.GetVerb() {
						t.Errorf("got the attributes %v, want %v", attributes, test.attributes)
					}
					if attributes.GetName() == "" {
						return test.allNames, "", test.err
					}
					return test.byName, "", nil
				})
			got, _, err := AllNamesFirst(delegate).Authorize(t.Context(), test.attributes)
			if !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			if got != test.want {
				t.Errorf("got decision %v, want %v", got, test.want)
			}
			if diff := cmp.Diff(test.wantNames, names); diff != "" {
				t.Errorf("authorized names (-want +got):\n%s", diff)
			}
		})
	}
}
