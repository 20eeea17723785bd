// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"crypto/elliptic"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestValidatePeeringToken(t *testing.T) {
	good := &federation.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{Name: "for-rome"},
		Spec:       federation.PeeringTokenSpec{ConsumerClusterID: romeID, ExpirationSeconds: ptr.To[int64](600)},
	}
	runCreate(t, good, ValidatePeeringToken, map[string]wrong[*federation.PeeringToken]{
		"no name":             {func(p *federation.PeeringToken) { p.Name = "" }, []string{"metadata.name"}},
		"no cluster id":       {func(p *federation.PeeringToken) { p.Spec.ConsumerClusterID = "rome" }, []string{"spec.consumerClusterID"}},
		"under ten minutes":   {func(p *federation.PeeringToken) { p.Spec.ExpirationSeconds = ptr.To[int64](599) }, []string{"spec.expirationSeconds"}},
		"more than a week":    {func(p *federation.PeeringToken) { p.Spec.ExpirationSeconds = ptr.To[int64](604801) }, []string{"spec.expirationSeconds"}},
		"a negative lifetime": {func(p *federation.PeeringToken) { p.Spec.ExpirationSeconds = ptr.To[int64](-1) }, []string{"spec.expirationSeconds"}},
	})
	runUpdate(t, good, ValidatePeeringTokenUpdate, map[string]wrong[*federation.PeeringToken]{
		"another consumer": {func(p *federation.PeeringToken) { p.Spec.ConsumerClusterID = milanID }, []string{"spec"}},
		"another lifetime": {func(p *federation.PeeringToken) { p.Spec.ExpirationSeconds = ptr.To[int64](3600) }, []string{"spec"}},
	})
}

func TestUsedPeeringTokensStayUsed(t *testing.T) {
	good := &federation.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{Name: "for-rome"},
		Status:     federation.PeeringTokenStatus{Used: true, UsedBy: romeID},
	}
	runUpdate(t, good, ValidatePeeringTokenStatusUpdate, map[string]wrong[*federation.PeeringToken]{
		"unused again":    {func(p *federation.PeeringToken) { p.Status = federation.PeeringTokenStatus{} }, []string{"status.used", "status.usedBy"}},
		"used by another": {func(p *federation.PeeringToken) { p.Status.UsedBy = milanID }, []string{"status.usedBy"}},
		"used by no id":   {func(p *federation.PeeringToken) { p.Status.UsedBy = "rome" }, []string{"status.usedBy"}},
	})
	unused := good.DeepCopy()
	unused.Status, unused.ResourceVersion = federation.PeeringTokenStatus{}, "1"
	used := unused.DeepCopy()
	used.Status.UsedBy = romeID
	if errs := ValidatePeeringTokenStatusUpdate(used, unused); len(errs) != 1 || errs[0].Field != "status.used" {
		t.Errorf("usedBy without used is refused for %v", errs)
	}
}

func TestValidateIdentityRequest(t *testing.T) {
	key := ecdsaKey(t, elliptic.P256())
	good := &federation.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-" + invitationUID},
		Spec: federation.IdentityRequestSpec{ClusterID: romeID, ClusterName: "rome",
			Request: sign(t, goodRequest(), key)},
	}
	validate := func(r *federation.IdentityRequest) field.ErrorList { return ValidateIdentityRequest(r, invitationUID) }
	runCreate(t, good, validate, map[string]wrong[*federation.IdentityRequest]{
		"no cluster id":       {func(r *federation.IdentityRequest) { r.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"a name as id":        {func(r *federation.IdentityRequest) { r.Spec.ClusterID = "rome" }, []string{"spec.clusterID"}},
		"no cluster name":     {func(r *federation.IdentityRequest) { r.Spec.ClusterName = "" }, []string{"spec.clusterName"}},
		"a path as a name":    {func(r *federation.IdentityRequest) { r.Spec.ClusterName = "../rome" }, []string{"spec.clusterName"}},
		"a name with dots":    {func(r *federation.IdentityRequest) { r.Spec.ClusterName = "rome.it" }, []string{"spec.clusterName"}},
		"a name that is long": {func(r *federation.IdentityRequest) { r.Spec.ClusterName = strings.Repeat("r", 41) }, []string{"spec.clusterName"}},
		"no request":          {func(r *federation.IdentityRequest) { r.Spec.Request = nil }, []string{"spec.request"}},
		"a request for others": {func(r *federation.IdentityRequest) {
			other := goodRequest()
			other.Subject.CommonName = romeID
			r.Spec.Request = sign(t, other, key)
		}, []string{"spec.request"}},
	})
	if found := paths(ValidateIdentityRequest(good, "")); len(found) != 2 || found[0] != "metadata.name" ||
		found[1] != "spec.request" {
		t.Errorf("a request without an invitation is refused for %v", found)
	}
	update := func(r, old *federation.IdentityRequest) field.ErrorList {
		return ValidateIdentityRequestUpdate(r, old, invitationUID)
	}
	runUpdate(t, good, update, map[string]wrong[*federation.IdentityRequest]{
		"another cluster": {func(r *federation.IdentityRequest) { r.Spec.ClusterID = milanID }, []string{"spec.clusterID"}},
		"another name":    {func(r *federation.IdentityRequest) { r.Spec.ClusterName = "milan" }, []string{"spec.clusterName"}},
		"no key":          {func(r *federation.IdentityRequest) { r.Spec.Request = nil }, []string{"spec.request"}},
		"another subject": {func(r *federation.IdentityRequest) {
			other := goodRequest()
			other.Subject.CommonName = romeID
			r.Spec.Request = sign(t, other, key)
		}, []string{"spec.request"}},
		"more organizations": {func(r *federation.IdentityRequest) {
			more := goodRequest()
			more.Subject.Organization = append(more.Subject.Organization, "system:masters")
			r.Spec.Request = sign(t, more, key)
		}, []string{"spec.request"}},
	})
	renewed := good.DeepCopy()
	renewed.Spec.Request = sign(t, goodRequest(), ecdsaKey(t, elliptic.P256()))
	if errs := update(renewed, good); len(errs) > 0 {
		t.Errorf("another key is refused: %v", errs)
	}
	good.Status = federation.IdentityRequestStatus{Certificate: certificate(t), ClusterID: milanID,
		TenantNamespace: "liqo-tenant-rome"}
	runUpdate(t, good, ValidateIdentityRequestStatusUpdate, map[string]wrong[*federation.IdentityRequest]{
		"no certificate":        {func(r *federation.IdentityRequest) { r.Status.Certificate = []byte("x") }, []string{"status.certificate"}},
		"no cluster id":         {func(r *federation.IdentityRequest) { r.Status.ClusterID = "milan" }, []string{"status.clusterID"}},
		"a path as a namespace": {func(r *federation.IdentityRequest) { r.Status.TenantNamespace = "../kube-system" }, []string{"status.tenantNamespace"}},
		"a broken condition": {func(r *federation.IdentityRequest) { r.Status.Conditions = []metav1.Condition{{}} },
			[]string{"status.conditions[0].lastTransitionTime", "status.conditions[0].reason", "status.conditions[0].status",
				"status.conditions[0].type"}},
	})
}
