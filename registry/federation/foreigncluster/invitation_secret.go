// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/subresource"
)

// undoTimeout is the maximum time to undo the change of a Secret after a failed request.
const undoTimeout = 10 * time.Second

// invitations stores the tokens of accepted invitations in Secrets of the invitation namespace. A Secret is created
// before its ForeignCluster, so it has no owner reference. The foreigncluster controller deletes it.
type invitations struct {
	secrets corev1client.SecretInterface
}

// comparison is the result of comparing the token of a request with the token in the Secret of a ForeignCluster. It is
// absent if there is no Secret.
type comparison int

const (
	absent comparison = iota
	same
	different
)

// undoFunc undoes the change of a Secret.
type undoFunc func(ctx context.Context) error

func nothingToUndo(context.Context) error { return nil }

// withoutLogger returns a context in which client-go does not log request bodies, because they contain tokens.
func withoutLogger(ctx context.Context) context.Context {
	return klog.NewContext(ctx, klog.Logger{})
}

// compare compares a token with the token in the Secret of a cluster. cluster is the name of the ForeignCluster. It
// fails if the Secret cannot be read.
func (i invitations) compare(ctx context.Context, cluster, token string) (comparison, error) {
	secret, err := i.get(ctx, cluster)
	switch {
	case err != nil:
		return absent, err
	case secret == nil:
		return absent, nil
	case equal(secret, token):
		return same, nil
	default:
		return different, nil
	}
}

// store stores the token of a cluster in its Secret, and returns a function that undoes this. cluster is the name of
// the ForeignCluster. If another token is stored already, store replaces it if replace is true. If replace is false,
// store fails with Conflict, because a concurrent request may have stored that token.
func (i invitations) store(
	ctx context.Context, cluster, token string, replace bool, dryRun []string,
) (undoFunc, error) {
	secret, err := i.get(ctx, cluster)
	switch {
	case err != nil:
		return nil, err
	case secret == nil:
		return i.create(ctx, cluster, token, dryRun)
	case equal(secret, token):
		return nothingToUndo, nil
	case replace:
		return i.update(ctx, secret, token, dryRun)
	}
	return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name,
		fmt.Errorf("it contains another invitation; if a failed request created it, delete it from namespace %s and "+
			"try again", secret.Namespace))
}

// get returns the Secret of a cluster; nil if it does not exist. It fails with Conflict if a Secret of another type has
// the same name.
func (i invitations) get(ctx context.Context, cluster string) (*corev1.Secret, error) {
	secret, err := i.secrets.Get(withoutLogger(ctx), naming.InvitationSecret(cluster), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret of the invitation: %w", err)
	}
	if secret.Type != v1alpha1.SecretTypeInvitation {
		return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name,
			fmt.Errorf("its type is %q, and must be %q to store the invitation; delete it from namespace %s", secret.Type,
				v1alpha1.SecretTypeInvitation, secret.Namespace))
	}
	return secret, nil
}

func (i invitations) create(ctx context.Context, cluster, token string, dryRun []string) (undoFunc, error) {
	secret, err := i.secrets.Create(withoutLogger(ctx), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   naming.InvitationSecret(cluster),
			Labels: map[string]string{v1alpha1.LabelForeignCluster: cluster},
		},
		Type: v1alpha1.SecretTypeInvitation,
		Data: map[string][]byte{v1alpha1.InvitationTokenKey: []byte(token)},
	}, metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return nil, fmt.Errorf("creating the Secret of the invitation: %w", subresource.LostRace(err))
	}
	if len(dryRun) > 0 {
		return nothingToUndo, nil
	}
	return func(ctx context.Context) error {
		err := i.secrets.Delete(withoutLogger(ctx), secret.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(secret.UID)}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}, nil
}

func (i invitations) update(ctx context.Context, old *corev1.Secret, token string, dryRun []string) (undoFunc, error) {
	requested := old.DeepCopy()
	requested.Data = map[string][]byte{v1alpha1.InvitationTokenKey: []byte(token)}
	updated, err := i.secrets.Update(withoutLogger(ctx), requested, metav1.UpdateOptions{DryRun: dryRun})
	if err != nil {
		return nil, fmt.Errorf("updating the Secret of the invitation: %w", subresource.LostRace(err))
	}
	if len(dryRun) > 0 {
		return nothingToUndo, nil
	}
	return func(ctx context.Context) error {
		restored := updated.DeepCopy()
		restored.Data = old.Data
		_, err := i.secrets.Update(withoutLogger(ctx), restored, metav1.UpdateOptions{})
		return err
	}, nil
}

// rollBack undoes the change of a Secret after a failed request, even if the request's context is done. It returns
// failure, joined with the error of undo.
func rollBack(ctx context.Context, undo undoFunc, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := undo(ctx); err != nil {
		return errors.Join(failure, fmt.Errorf("rolling back the Secret of the invitation: %w", err))
	}
	return failure
}

// equal reports in constant time whether a Secret contains this token.
func equal(secret *corev1.Secret, token string) bool {
	current, requested := sha256.Sum256(secret.Data[v1alpha1.InvitationTokenKey]), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(current[:], requested[:]) == 1
}
