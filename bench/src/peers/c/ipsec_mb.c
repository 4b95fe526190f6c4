/* Intel's library for IPsec: direct calls where it has them, otherwise one job, flushed at once.
 * Each call processes one packet in place. */

#include <intel-ipsec-mb.h>
#include <stdlib.h>
#include <string.h>

struct peer {
    DECLARE_ALIGNED(struct gcm_key_data gcm, 64);
    IMB_MGR *manager;
    DECLARE_ALIGNED(uint32_t encrypt[15 * 4], 16);
    DECLARE_ALIGNED(uint32_t decrypt[15 * 4], 16);
    uint8_t chacha[32];
};

const char *peer_version(void) { return imb_get_version_str(); }

/* Returns NULL without memory or without the CPU for it. */
struct peer *peer_new(const uint8_t *key, int key_bytes) {
    struct peer *peer = aligned_alloc(64, (sizeof(*peer) + 63) & ~(size_t)63);
    IMB_ARCH arch;
    if (peer == NULL)
        return NULL;
    memset(peer, 0, sizeof(*peer));
    peer->manager = alloc_mb_mgr(0);
    if (peer->manager == NULL) {
        free(peer);
        return NULL;
    }
    init_mb_mgr_auto(peer->manager, &arch);
    if (key_bytes == 16) {
        IMB_AES128_GCM_PRE(peer->manager, key, &peer->gcm);
        IMB_AES_KEYEXP_128(peer->manager, key, peer->encrypt, peer->decrypt);
    } else {
        IMB_AES256_GCM_PRE(peer->manager, key, &peer->gcm);
        memcpy(peer->chacha, key, 32);
    }
    return peer;
}

void peer_free(struct peer *peer) {
    free_mb_mgr(peer->manager);
    free(peer);
}

void gcm128(struct peer *p, int seal, const uint8_t *nonce, const uint8_t *aad, uint64_t aad_len, uint8_t *data, uint64_t len,
            uint8_t *tag) {
    DECLARE_ALIGNED(struct gcm_context_data context, 64);
    if (seal)
        IMB_AES128_GCM_ENC(p->manager, &p->gcm, &context, data, data, len, nonce, aad, aad_len, tag, 16);
    else
        IMB_AES128_GCM_DEC(p->manager, &p->gcm, &context, data, data, len, nonce, aad, aad_len, tag, 16);
}

void gcm256(struct peer *p, int seal, const uint8_t *nonce, const uint8_t *aad, uint64_t aad_len, uint8_t *data, uint64_t len,
            uint8_t *tag) {
    DECLARE_ALIGNED(struct gcm_context_data context, 64);
    if (seal)
        IMB_AES256_GCM_ENC(p->manager, &p->gcm, &context, data, data, len, nonce, aad, aad_len, tag, 16);
    else
        IMB_AES256_GCM_DEC(p->manager, &p->gcm, &context, data, data, len, nonce, aad, aad_len, tag, 16);
}

void chacha_direct(struct peer *p, int seal, const uint8_t *nonce, const uint8_t *aad, uint64_t aad_len, uint8_t *data,
                   uint64_t len, uint8_t *tag) {
    DECLARE_ALIGNED(struct chacha20_poly1305_context_data context, 64);
    IMB_CHACHA20_POLY1305_INIT(p->manager, p->chacha, &context, nonce, aad, aad_len);
    if (seal) {
        IMB_CHACHA20_POLY1305_ENC_UPDATE(p->manager, p->chacha, &context, data, data, len);
        IMB_CHACHA20_POLY1305_ENC_FINALIZE(p->manager, &context, tag, 16);
    } else {
        IMB_CHACHA20_POLY1305_DEC_UPDATE(p->manager, p->chacha, &context, data, data, len);
        IMB_CHACHA20_POLY1305_DEC_FINALIZE(p->manager, &context, tag, 16);
    }
}

static void run(struct peer *p, IMB_JOB *job, int seal, const uint8_t *nonce, uint8_t *data, uint64_t len, uint8_t *tag,
                uint64_t tag_len) {
    job->cipher_direction = seal ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
    job->src = data;
    job->dst = data;
    job->cipher_start_src_offset_in_bytes = 0;
    job->msg_len_to_cipher_in_bytes = len;
    job->hash_start_src_offset_in_bytes = 0;
    job->msg_len_to_hash_in_bytes = len;
    job->iv = nonce;
    job->iv_len_in_bytes = 12;
    job->auth_tag_output = tag;
    job->auth_tag_output_len_in_bytes = tag_len;
    if (IMB_SUBMIT_JOB_NOCHECK(p->manager) == NULL)
        while (IMB_FLUSH_JOB(p->manager) == NULL)
            ;
}

void chacha_job(struct peer *p, int seal, const uint8_t *nonce, const uint8_t *aad, uint64_t aad_len, uint8_t *data,
                uint64_t len, uint8_t *tag) {
    IMB_JOB *job = IMB_GET_NEXT_JOB(p->manager);
    job->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
    job->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
    job->chain_order = seal ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
    job->enc_keys = p->chacha;
    job->dec_keys = p->chacha;
    job->key_len_in_bytes = 32;
    job->u.CHACHA20_POLY1305.aad = aad;
    job->u.CHACHA20_POLY1305.aad_len_in_bytes = aad_len;
    run(p, job, seal, nonce, data, len, tag, 16);
}

void ccm8_job(struct peer *p, int seal, const uint8_t *nonce, const uint8_t *aad, uint64_t aad_len, uint8_t *data, uint64_t len,
              uint8_t *tag) {
    IMB_JOB *job = IMB_GET_NEXT_JOB(p->manager);
    job->cipher_mode = IMB_CIPHER_CCM;
    job->hash_alg = IMB_AUTH_AES_CCM;
    /* In CCM the plaintext is authenticated. */
    job->chain_order = seal ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
    job->enc_keys = p->encrypt;
    job->dec_keys = p->encrypt;
    job->key_len_in_bytes = 16;
    job->u.CCM.aad = aad;
    job->u.CCM.aad_len_in_bytes = aad_len;
    run(p, job, seal, nonce, data, len, tag, 8);
}
